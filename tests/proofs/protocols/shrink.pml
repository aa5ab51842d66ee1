// Going on without the workers that are lost: who is left makes a new cluster, in which all see the same members.
//
// Of the old cluster, whose worker 0 leads, there are the news of losses, which come in order; control.pml is the model
// of how they come. Any process may crash before any of its steps, or be stopped and go on later; its messages may be
// late. Each step names the functions it stands for, as file:function.
//
// Faults that can be planted, and the definitions with which they are found:
// PLANT_FORGETS_ONE: -DFAILURES=2 -DSTOPS=1
// PLANT_OVERLOOKS_NEWS: -DFAILURES=2 -DSTOPS=1
// PLANT_GOES_ON_BEFORE_ALL_HAVE_MET: -DFAILURES=2 -DSTOPS=1
// PLANT_LETS_ANYBODY_IN: -DN=4 -DFAILURES=2 -DSTOPS=0
#ifndef N
#define N 3
#endif
#ifndef FAILURES
#define FAILURES 2
#endif
#ifndef STOPS
#define STOPS 1
#endif

mtype = { waits, joins, away, is_in, started, ended };

bool runs[N] = true;
bool is_dead[N], was_stopped[N];
byte num_failures = 0, num_stops = 0;

// The old cluster. Sets of workers are bits.
chan news[N] = [4] of { byte };    // from the leader: who is lost; of 0: from the workers
byte lost[N];                      // src/cluster/worker_connection.cpp:WorkerConnection::lost_workers
bool is_over[N];                   // the worker's connection
byte here = (1 << N) - 1;          // of the leader

// The new cluster that a process makes or joins.
byte view[N];                      // the lost that it goes on without
bool listens[N];
byte at[N];                        // whom it joins
mtype state[N] = waits;            // of its joining
byte joined[N];                    // of a leader
byte part[N];                      // the started cluster in whose first all_gather it is; 0: none
byte members[N];                   // of the cluster in which it goes on; 0: of none
bool has_limit[N];                 // what it waits for
bool has_failed[N];                // shrink has thrown an error, but PeerLost

#define BIT(p) (1 << (p))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define ALL (BIT(N) - 1)
#define LEFT(p) (ALL & ~view[p])
#define FIRST(set) ((set) & 1 -> 0 : ((set) & 2 -> 1 : ((set) & 4 -> 2 : 3)))

// src/workers/control/hub.cpp:Hub::lose_because, and each worker's src/workers/control/session.cpp:Session::deliver.
inline tell(q) {
  here = here & ~BIT(q);
  lost[0] = lost[0] | BIT(q);
  to = 1;
  do
  :: to < N ->
    if // the leader may crash between any two of its messages
    :: true
    :: num_failures < FAILURES -> is_dead[0] = true; runs[0] = false; num_failures++
    fi;
    if
    :: (here & BIT(to)) || to == q ->
#ifdef PLANT_FORGETS_ONE
      if
      :: to == N - 1 && to != q
      :: else -> news[to]!q
      fi
#else
      news[to]!q
#endif
    :: else
    fi;
    to++
  :: else -> break
  od;
  to = 0
}

// src/workers/control/leader_endpoint.cpp:LeaderEndpoint::serve, which reads before it takes a worker for silent.
proctype Leader() provided (runs[0]) {
  byte q, to;
  do
  :: atomic { !is_over[0] && nempty(news[0]) -> news[0]?q; tell(0); is_over[0] = true; q = 0 }
  :: atomic { !is_over[0] && empty(news[0]) && (here & 2) && !runs[1] -> tell(1) }
  :: atomic { !is_over[0] && empty(news[0]) && (here & 4) && !runs[2] -> tell(2) }
#if N > 3
  :: atomic { !is_over[0] && empty(news[0]) && (here & 8) && !runs[3] -> tell(3) }
#endif
  od
}

// src/workers/control/worker_endpoint.cpp:WorkerEndpoint::serve
proctype Worker(byte w) provided (runs[(_pid - 1) % N]) {
  byte q;
  do
  :: atomic { !is_over[w] && nempty(news[w]) ->
      news[w]?q;
      lost[w] = lost[w] | BIT(q);
      is_over[w] = (q == w || q == 0);
      q = 0
    }
  :: atomic { !is_over[w] && is_dead[0] -> lost[w] = lost[w] | 1; is_over[w] = true }
  :: atomic { !is_over[w] && !is_dead[0] && !runs[0] && empty(news[w]) ->
      lost[w] = lost[w] | 1;
      is_over[w] = true;
      news[0]!w
    }
  od
}

// What a leader tells those that have joined: the start, or, by closing their connections, its end.
inline answer(what) {
  for (q : 0 .. N - 1) {
    if
    :: (joined[p] & BIT(q)) && q != p && state[q] == is_in -> state[q] = what
    :: else
    fi
  }
  q = 0;
  joined[p] = 0;
  listens[p] = false
}

#define IS_OUTDATED(p) (COUNT(lost[p]) > COUNT(view[p])) // src/cluster/worker_group.cpp:WorkerGroup::connect
#define DEAD_OF(p) \
  ((is_dead[0] -> 1 : 0) | (is_dead[1] -> 2 : 0) | (is_dead[2] -> 4 : 0) | (is_dead[N - 1] -> BIT(N - 1) : 0))
#define COMES(q, p) (state[q] == joins && at[q] == p)

#define IS_PART(q, p) (!(LEFT(p) & BIT(q)) || part[q] == LEFT(p))
#define IS_GONE(q, p) (!IS_PART(q, p) && (is_dead[q] || q == FIRST(LEFT(p)) || \
                                          !(at[q] == FIRST(LEFT(p)) && view[q] == view[p] && state[q] == started)))

// src/strategy/multi_worker_mirrored_strategy.cpp:MultiWorkerMirroredStrategy::shrink
proctype Program(byte p) provided (runs[(_pid - 1) % N]) {
  byte q;
again:
  atomic {
    lost[p] != 0 ->
    view[p] = lost[p];
    state[p] = waits;
    part[p] = 0;
    has_limit[p] = false
  }
  // src/cluster/resized_cluster.cpp:shrunk_cluster
  atomic {
    if
    :: view[p] & BIT(p) -> has_failed[p] = true; goto over
    :: else
    fi;
    if
    :: LEFT(p) == BIT(p) -> members[p] = BIT(p); goto over
    :: LEFT(p) != BIT(p) && FIRST(LEFT(p)) == p -> listens[p] = true; joined[p] = BIT(p); has_limit[p] = true
    :: else -> at[p] = FIRST(LEFT(p)); has_limit[p] = true; goto join
    fi
  }
leads:
  do
  // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::welcome, src/workers/control/hub.cpp:Hub::join
  :: atomic { COMES((p + 1) % N, p) || COMES((p + 2) % N, p) || COMES((p + N - 1) % N, p) ->
      if
      :: COMES((p + 1) % N, p) -> q = (p + 1) % N
      :: COMES((p + 2) % N, p) -> q = (p + 2) % N
      :: COMES((p + N - 1) % N, p) -> q = (p + N - 1) % N
      fi;
      if
#ifndef PLANT_LETS_ANYBODY_IN
      :: COUNT(LEFT(q)) != COUNT(LEFT(p)) -> state[q] = away
#endif
      :: else ->
        // It knows who comes by the place among those that are left, which is the same process's for both.
        assert(view[q] == view[p]);
        joined[p] = joined[p] | BIT(q);
        state[q] = is_in
      fi;
      q = 0
    }
  // src/workers/control/hub.cpp:Hub::forget
  :: atomic { joined[p] & DEAD_OF(p) -> joined[p] = joined[p] & ~DEAD_OF(p) }
  // src/workers/control/hub.cpp:Hub::start_if_complete
  :: atomic { joined[p] == LEFT(p) -> part[p] = LEFT(p); has_limit[p] = false; answer(started); goto meets }
#ifndef PLANT_OVERLOOKS_NEWS
  // src/workers/control/start.cpp:StartPatience::look: who is left has changed.
  :: atomic { IS_OUTDATED(p) -> answer(ended); goto again }
#endif
  :: atomic { timeout -> answer(ended); has_failed[p] = true; goto over }
  od;
join: // src/workers/control/start.cpp:join_leader, which tries again where it is turned away
  do
  :: atomic { listens[at[p]] && !is_dead[at[p]] &&
              (state[p] == waits || (state[p] == away && view[at[p]] == view[p])) ->
      state[p] = joins
    }
  :: atomic { state[p] == started -> part[p] = LEFT(p); has_limit[p] = false; goto meets }
  // PeerLost, after which the program calls shrink again.
  :: atomic { state[p] == ended -> goto again }
  :: atomic { is_dead[at[p]] && (state[p] == is_in || state[p] == joins) -> state[p] = ended }
  :: atomic { !listens[at[p]] && state[p] == joins -> state[p] = waits }
#ifndef PLANT_OVERLOOKS_NEWS
  :: atomic { IS_OUTDATED(p) -> joined[at[p]] = joined[at[p]] & ~BIT(p); goto again }
#endif
  :: atomic { timeout -> joined[at[p]] = joined[at[p]] & ~BIT(p); has_failed[p] = true; goto over }
  od;
meets: // Nobody goes on before all have met: src/cluster/worker_group.cpp:WorkerGroup::all_gather
  do
#ifdef PLANT_GOES_ON_BEFORE_ALL_HAVE_MET
  :: atomic { true -> members[p] = LEFT(p); goto over }
#else
  :: atomic { IS_PART(0, p) && IS_PART(1, p) && IS_PART(2, p) && IS_PART(N - 1, p) -> members[p] = LEFT(p); goto over }
#endif
  // A worker of the new cluster is lost: PeerLost, after which the program calls shrink again.
  :: atomic { IS_GONE(0, p) || IS_GONE(1, p) || IS_GONE(2, p) || IS_GONE(N - 1, p) -> part[p] = 0; goto again }
  od;
over:
  skip
}

#define FAILS(p) \
  :: atomic { num_failures < FAILURES && runs[p] -> is_dead[p] = true; runs[p] = false; num_failures++ } \
  :: atomic { num_stops < STOPS && num_failures < FAILURES && runs[p] && !was_stopped[p] -> \
       num_stops++; was_stopped[p] = true; runs[p] = false; num_failures++ } \
  :: !runs[p] && !is_dead[p] -> runs[p] = true

// Who fails, and when; who is stopped goes on.
proctype Failures() {
  do
  FAILS(0)
  FAILS(1)
  FAILS(2)
#if N > 3
  FAILS(3)
#endif
  // Nobody fails any more.
  :: atomic { (runs[0] || is_dead[0]) && (runs[1] || is_dead[1]) && (runs[2] || is_dead[2]) &&
              (runs[N - 1] || is_dead[N - 1]) ->
      num_failures = FAILURES;
      break
    }
  od
}

// Those that go on do so in one cluster.
#define ARE_ONE(a, b) (members[a] == 0 || members[b] == 0 || is_dead[a] || is_dead[b] || members[a] == members[b])
#define ALL_ARE_ONE \
  (ARE_ONE(0, 1) && ARE_ONE(0, 2) && ARE_ONE(0, N - 1) && ARE_ONE(1, 2) && ARE_ONE(1, N - 1) && ARE_ONE(2, N - 1))
#define MAY_GIVE_UP(p) (runs[p] && has_limit[p] && members[p] == 0 && !has_failed[p])
#define IS_THROUGH(p) (!runs[p] || lost[p] == 0 || members[p] != 0 || has_failed[p])

// When nothing can happen any more, nobody waits.
proctype Judge() {
  byte p;
  atomic {
    timeout && !MAY_GIVE_UP(0) && !MAY_GIVE_UP(1) && !MAY_GIVE_UP(2) && !MAY_GIVE_UP(N - 1);
    assert(ALL_ARE_ONE);
    for (p : 0 .. N - 1) {
      assert(IS_THROUGH(p));
      // All hear of a loss.
      assert(!runs[p] || lost[p] != 0 || ((lost[0] == 0 || !runs[0]) && (lost[1] == 0 || !runs[1]) &&
                                          (lost[2] == 0 || !runs[2]) && (lost[N - 1] == 0 || !runs[N - 1])));
      // Where processes only crash, and the leader told all, those that are left go on.
      assert(!runs[p] || num_stops > 0 || lost[p] == 0 || !has_failed[p] || is_dead[0])
    }
  }
}

ltl one_cluster { [] (ALL_ARE_ONE) }
ltl all_are_told { [] (lost[0] != 0 -> <> (lost[1] != 0 || !runs[1])) }

init {
  byte w;
  atomic {
    for (w : 0 .. N - 1) { run Program(w) }
    run Leader();
    for (w : 1 .. N - 1) { run Worker(w) }
    run Failures();
    run Judge()
  }
}

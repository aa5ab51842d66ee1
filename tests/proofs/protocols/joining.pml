// Joining: the workers of a cluster, whose worker 0 is the chief, let others join them between two steps.
//
// Whoever wants to join waits at the chief. In `grow` the chief invites all that wait, tells the others whom, and all
// start the larger cluster; if that fails they go on as they were, and whoever was invited waits again. Any process may
// crash before any of its steps, be stopped and go on later, run out of patience in the start, or fail there. What a
// connection carries comes in order, and may be late; who is stopped is slow here, and control.pml has who takes it for
// lost. Each step names the functions it stands for, as file:function.
//
// Faults that can be planted, and the definitions with which they are found:
// PLANT_ANSWERS_IN_TWO_ORDERS: -DN=3
// PLANT_DOES_NOT_MEET_IN_VAIN: -DN=3
// PLANT_DOES_NOT_SAY_THAT_IT_THREW: -DN=3
// PLANT_GOES_ON_WITHOUT_THE_LAST_ANSWER: -DN=3
// PLANT_INVITES_WITHOUT_A_PAUSE: -DOLD=1 -DLAST=3 -DSTOPS=0
// PLANT_WAITS_FOR_WHO_HAS_GONE: -DSTOPS=0 -DNO_TIME_LIMITS
#ifndef N
#define N 3 // processes
#endif
#ifndef OLD
#define OLD 2 // of them the workers at first
#endif
#ifndef LAST
#define LAST 2 // steps
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#ifndef STOPS
#define STOPS FAILURES
#endif

mtype = { away, waits, invited };                              // a link to the waiting list
mtype = { idle, hello, turned_away, refused, is_in, texted };  // a link to the start
mtype = { started, told, peer_lost, ended, late, wrong };      // what the chief sends on it; "ended": it closes it
mtype = { shut, collects, runs_on, all_told, failed };         // the hub of the start

bool runs[N] = true;
bool is_dead[N], was_stopped[N], is_over[N];
bool is_starting[N];                                     // it waits, with a time limit
byte num_failures = 0, num_stops = 0;

// The cluster in which a process goes on: its number, its members as bits, and how many steps it has made in all.
byte cluster[N], members[N], steps[N];
byte posted[(LAST + 1) * N];                             // by cluster and process: the meetings it has come to
byte made_by[LAST + 1];                                  // by step: the members that have made it

// The chief's.
byte num_starts = 0;
byte said = 0;                                           // whom the chief has invited, as bits; its text for the others
byte steps_said = 0;                                     // by the chief, to who joins
bool has_thrown = false;
bool is_busy = false;                                    // it holds the mutex of its connection
bool is_inviting = false, has_invited = false, has_lost_invited = false, is_list_open = true;
mtype link[N] = away;
mtype hub = shut;
byte comes[N];                                           // by worker of the larger cluster: 1 + the process
byte hub_size = 0;
bool chief_has_text = false;

// What a process knows of the larger cluster: all members, as bits, and which worker of how many it is.
byte list[N], worker[N], size[N];
mtype start[N] = idle;
chan answers[N] = [3] of { mtype };

#define BIT(p) (1 << (p))
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define DEAD \
  ((is_dead[0] -> 1 : 0) | (is_dead[1] -> 2 : 0) | (is_dead[2] -> 4 : 0) | (is_dead[N - 1] -> BIT(N - 1) : 0))
#define HAS_CAPACITY (num_failures < FAILURES)

// A meeting of a cluster's members, src/workers/worker_meeting.cpp:WorkerMeeting::exchange. It is complete for all when
// all have come; else a loss ends it.
#define POSTED(q, p) posted[cluster[p] * N + q]
#define HAS_COME(q, p) (!(members[p] & BIT(q)) || POSTED(q, p) >= POSTED(p, p))
#define IS_COMPLETE(p) (HAS_COME(0, p) && HAS_COME(1, p) && HAS_COME(2, p) && HAS_COME(N - 1, p))

// In the start of the larger cluster: who is not there, and who will not come.
#define HAS_NOT_COME(w) (w < hub_size && comes[w] == 0)
#define PROCESS(w) (comes[w] - 1)
#define HAS_LEFT(w) (w < hub_size && comes[w] > 1 && (is_dead[PROCESS(w)] || start[PROCESS(w)] == idle))
#define HAS_NO_TEXT(w) (w < hub_size && comes[w] > 1 && start[PROCESS(w)] != texted)

// Each message on its own, as the chief may crash between any two:
// src/workers/control/leader_endpoint.cpp:LeaderEndpoint::carry
#define IS_IN_START(q) (start[q] == is_in || start[q] == texted)
#define IS_CONNECTED(w) (comes[w] != 0 && start[PROCESS(w)] != idle)
inline begin_answer(state) { hub = state; w = 1; is_busy = true }
inline answer(what) {
  do
  :: atomic { w < hub_size ->
      if
      :: IS_CONNECTED(w) && nfull(answers[PROCESS(w)]) -> answers[PROCESS(w)]!what
      :: !IS_CONNECTED(w) || full(answers[PROCESS(w)])
      fi;
      w++
    }
  :: atomic { w >= hub_size -> w = 0; is_busy = false; break }
  od
}

inline take_hello(q) {
  if
  // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::welcome
  :: hub == collects && size[q] != hub_size -> start[q] = turned_away
  // src/workers/control/hub.cpp:Hub::refusal: two are the same worker. The start has failed for all.
  :: hub == collects && size[q] == hub_size && comes[worker[q]] != 0 ->
    answers[q]!wrong; start[q] = refused; hub = failed
  // src/workers/control/hub.cpp:Hub::join
  :: hub == collects && size[q] == hub_size && comes[worker[q]] == 0 ->
    comes[worker[q]] = q + 1; start[q] = is_in
  // The others go on without those who join; or it comes after the start: src/workers/control/hub.cpp:Hub::refusal
  :: hub == shut && has_invited && size[q] > COUNT(members[0]) -> answers[q]!peer_lost; start[q] = refused
  :: else -> answers[q]!late; start[q] = refused
  fi
}
#define IS_AT_DOOR(q) (start[q] == hello && !is_dead[q])
#define ACCEPTS (!is_busy && (hub == shut -> is_list_open && !is_inviting : hub != failed))

// The threads of the chief's connections: src/workers/control/leader_endpoint.cpp:LeaderEndpoint::serve
proctype Chief() provided (runs[0]) {
  byte w;
  do
  :: atomic { ACCEPTS && IS_AT_DOOR(1) -> take_hello(1) }
  :: atomic { ACCEPTS && IS_AT_DOOR(2) -> take_hello(2) }
#if N > 3
  :: atomic { ACCEPTS && IS_AT_DOOR(3) -> take_hello(3) }
#endif
  // src/workers/control/hub.cpp:Hub::forget
  :: atomic { hub == collects && HAS_LEFT(1) -> comes[1] = 0 }
  :: atomic { hub == collects && HAS_LEFT(2) -> comes[2] = 0 }
  :: atomic { hub == collects && N > 3 && HAS_LEFT(3) -> comes[3] = 0 }
  // src/workers/control/hub.cpp:Hub::start_if_complete
  :: atomic { hub == collects && !HAS_NOT_COME(1) && !HAS_NOT_COME(2) && !HAS_NOT_COME(3) -> begin_answer(runs_on) }
    answer(started)
  // src/workers/control/hub.cpp:Hub::complete, of the last all_gather of the new strategy's making
  :: atomic { hub == runs_on && chief_has_text && !HAS_NO_TEXT(1) && !HAS_NO_TEXT(2) && !HAS_NO_TEXT(3) ->
      begin_answer(all_told) }
    answer(told)
  // src/workers/control/hub.cpp:Hub::lose
#ifdef PLANT_ANSWERS_IN_TWO_ORDERS
  :: atomic { hub == all_told && (HAS_LEFT(1) || HAS_LEFT(2) || HAS_LEFT(3)) -> hub = failed }
#endif
  :: atomic { hub == runs_on && (HAS_LEFT(1) || HAS_LEFT(2) || HAS_LEFT(3)) -> begin_answer(failed) }
    answer(peer_lost)
  // src/workers/control/joining/waiting_list.cpp:WaitingList::serve
#ifndef PLANT_WAITS_FOR_WHO_HAS_GONE
  :: atomic { !is_busy && is_inviting && !has_lost_invited && (said & DEAD) -> has_lost_invited = true }
#endif
  // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::drop_gone
  :: atomic { !is_busy && is_list_open && (members[0] & DEAD) ->
      is_list_open = false; has_lost_invited = has_lost_invited || is_inviting; is_inviting = false;
      for (w : OLD .. N - 1) { link[w] = away }
      w = 0
    }
  od
}

// src/workers/control/joining/waiting_list.cpp:WaitingList::end_invitation
inline end_invitation() {
  for (q : OLD .. N - 1) { if :: link[q] == invited -> link[q] = away :: else fi }
  q = 0; is_inviting = false; has_lost_invited = false
}

// A process that was invited in vain, and does not know it yet: it looks every 250 ms, and the chief invites nobody for
// a second. Nobody is stopped for longer.
#define IS_UNAWARE(q) (is_starting[q] && !is_dead[q] && link[q] != invited)

// A process's program: steps, between which the cluster grows. Those behind the first ones join.
proctype Program(byte p) provided (runs[(_pid - 1) % N]) {
  byte q;
  mtype said_to_me;
  if :: p >= OLD -> goto join :: else fi;
again: // A step, which all make together, or none.
  POSTED(p, p)++;
  atomic {
    if
    :: IS_COMPLETE(p) ->
      assert(made_by[steps[p]] == 0 || made_by[steps[p]] == members[p]);
      made_by[steps[p]] = members[p];
      steps[p]++
    :: !IS_COMPLETE(p) && (members[p] & DEAD) -> goto lost
    fi;
    if :: steps[p] >= LAST -> goto over :: else fi
  }
  // src/strategy/multi_worker_mirrored_strategy.cpp:MultiWorkerMirroredStrategy::grow
  if
  :: p == 0 ->
#ifndef PLANT_INVITES_WITHOUT_A_PAUSE
    !IS_UNAWARE(1) && !IS_UNAWARE(2) && !IS_UNAWARE(N - 1);
#else
    skip;
#endif
    // src/workers/control/joining/waiting_list.cpp:WaitingList::invite, which is over only when all are told
    atomic {
      said = 0; steps_said = steps[0]; has_thrown = false; is_busy = true; q = OLD;
      do
      :: q < N ->
        if :: link[q] == waits && is_list_open && !is_dead[q] -> said = said | BIT(q) :: else fi;
        q++
      :: else -> break
      od;
      q = OLD;
      if :: said != 0 -> is_inviting = true; has_invited = true; has_lost_invited = false; num_starts++ :: else fi
    }
    do
    :: atomic { q < N ->
        if
        :: (said & BIT(q)) && link[q] == waits ->
          list[q] = members[0] | said;
          size[q] = COUNT(members[0] | said);
          worker[q] = COUNT(members[0]) + COUNT(said & (BIT(q) - 1));
          link[q] = invited
        :: else
        fi;
        q++
      }
    // There is no memory for it: it throws, and the others hear of it in the meeting.
    :: atomic { said != 0 && q < N && HAS_CAPACITY ->
        num_failures++;
        end_invitation();
        has_thrown = true;
#ifndef PLANT_DOES_NOT_SAY_THAT_IT_THREW
        said = 0;
#endif
        is_busy = false; break
      }
    :: atomic { q >= N -> q = 0; is_busy = false; break }
    od
  :: else
  fi;
  POSTED(p, p)++;
  atomic {
    if :: IS_COMPLETE(p) -> skip :: !IS_COMPLETE(p) && (members[p] & DEAD) -> goto lost fi;
    if :: said == 0 || (p == 0 && has_thrown) -> goto again :: else fi;
    // src/cluster/resized_cluster.cpp:grown_cluster
    list[p] = members[p] | said;
    size[p] = COUNT(list[p]);
    worker[p] = COUNT(members[p] & (BIT(p) - 1))
  }
  is_starting[p] = true;
  if :: p > 0 -> goto starts :: else fi;
  // The chief leads the start: src/workers/control/control_connection.cpp:await_others
  atomic {
    for (q : 0 .. N - 1) { comes[q] = 0 }
    q = 0; comes[0] = 1; hub_size = size[0]; chief_has_text = false; hub = collects
  }
  do
  :: atomic { hub == runs_on && !chief_has_text -> chief_has_text = true }
  :: atomic { hub == all_told && !is_busy ->
      // src/workers/control/joining/waiting_list.cpp:WaitingList::end_invitation: the new group has the waiting list
      members[0] = list[0]; cluster[0] = num_starts; is_starting[0] = false;
      end_invitation();
      has_invited = false; is_list_open = true; hub = shut;
      goto again
    }
  :: atomic { hub == failed && !is_busy -> break }
  :: atomic { hub == runs_on && !is_busy && !chief_has_text && HAS_CAPACITY -> num_failures++; hub = failed; break }
  // src/workers/control/start.cpp:StartPatience::look
  :: atomic { hub == collects && (has_lost_invited || (members[0] & DEAD)) -> hub = failed; break }
#ifndef NO_TIME_LIMITS
  :: atomic { hub == collects && HAS_CAPACITY -> num_failures++; hub = failed; break }
  :: atomic { timeout && hub == collects -> hub = failed; break }
#endif
  od;
  // src/workers/control/control_connection.cpp:leave
  q = 1;
  do
  :: atomic { q < N ->
      if :: IS_IN_START(q) && nfull(answers[q]) -> answers[q]!ended :: !IS_IN_START(q) || full(answers[q]) fi;
      q++
    }
  :: atomic { q >= N -> q = 0; hub = shut; end_invitation(); break }
  od;
  is_starting[0] = false;
  goto in_vain_together;

starts: // src/workers/control/start.cpp:join_leader
  atomic {
    do
    :: nempty(answers[p]) -> answers[p]?_
    :: empty(answers[p]) -> break
    od;
    start[p] = hello
  }
  do
  :: atomic { nempty(answers[p]) && answers[p]?[started] -> answers[p]?started; start[p] = texted }
#ifdef PLANT_GOES_ON_WITHOUT_THE_LAST_ANSWER
  :: atomic { start[p] == texted -> goto has_grown }
#endif
  :: atomic { nempty(answers[p]) && answers[p]?[told] -> answers[p]?told; goto has_grown }
  :: atomic { nempty(answers[p]) && !answers[p]?[started] && !answers[p]?[told] -> answers[p]?said_to_me; break }
  :: atomic { empty(answers[p]) && is_dead[0] -> said_to_me = ended; break }
  :: atomic { start[p] == turned_away && (size[p] == hub_size || hub == shut) -> start[p] = hello }
  // src/workers/control/start.cpp:StartPatience::look: a worker is lost; or the invitation is withdrawn.
  :: atomic { start[p] != texted && (members[p] & DEAD) -> said_to_me = ended; break }
  :: atomic { start[p] != texted && members[p] == 0 && link[p] != invited -> said_to_me = ended; break }
  // It cannot make its part of the strategy.
  :: atomic { nempty(answers[p]) && answers[p]?[started] && HAS_CAPACITY -> num_failures++; said_to_me = ended; break }
#ifndef NO_TIME_LIMITS
  :: atomic { start[p] != texted && HAS_CAPACITY -> num_failures++; said_to_me = ended; break }
  :: atomic { timeout && start[p] != texted -> said_to_me = ended; break }
#endif
  od;
  atomic {
    start[p] = idle; is_starting[p] = false;
    if :: members[p] != 0 -> goto in_vain_together :: else fi;
    // A joiner: src/strategy/multi_worker_mirrored_strategy.cpp:MultiWorkerMirroredStrategy::join
    assert(said_to_me != wrong && (said_to_me != late || link[p] != invited));
    if :: link[p] == invited && is_inviting -> has_lost_invited = true :: else fi;
    link[p] = away;
    goto join
  }

has_grown:
  atomic {
    start[p] = idle; is_starting[p] = false;
    if :: members[p] == 0 -> steps[p] = steps_said :: else fi;
    members[p] = list[p]; cluster[p] = num_starts;
    // All workers of a cluster have the same list.
    assert(is_dead[0] || list[p] == list[0]);
    goto again
  }

in_vain_together: // All come here, or none.
#ifndef PLANT_DOES_NOT_MEET_IN_VAIN
  POSTED(p, p)++;
#else
  if :: p != 0 -> POSTED(p, p)++ :: else -> goto again fi;
#endif
  atomic {
    if :: IS_COMPLETE(p) -> goto again :: !IS_COMPLETE(p) && (members[p] & DEAD) -> goto lost fi
  }

join: // src/workers/control/joining/join.cpp:wait_to_join
  do
  // src/workers/control/joining/waiting_list.cpp:WaitingList::admit
  :: atomic { link[p] == away && ACCEPTS && hub == shut && !is_dead[0] && !is_over[0] -> link[p] = waits }
  :: atomic { link[p] == invited -> is_starting[p] = true; goto starts }
  // Nobody is at the address, or src/workers/control/joining/waiting_list.cpp:WaitingList::refuse_all.
  :: atomic { is_dead[0] || is_over[0] -> goto over }
  od;

lost: // PeerLost: shrink.pml
  skip;
over:
  atomic {
    if :: p == 0 -> end_invitation() :: else fi;
    is_over[p] = true
  }
}

#define FAILS(p) \
  :: atomic { HAS_CAPACITY && runs[p] && !is_over[p] -> is_dead[p] = true; runs[p] = false; num_failures++ } \
  :: atomic { num_stops < STOPS && HAS_CAPACITY && runs[p] && !was_stopped[p] && !is_over[p] -> \
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
  :: atomic { (runs[0] || is_dead[0]) && (runs[1] || is_dead[1]) && (runs[2] || is_dead[2]) &&
              (runs[N - 1] || is_dead[N - 1]) ->
      num_failures = FAILURES;
      break
    }
  od
}

#ifdef NO_TIME_LIMITS
#define MAY_GIVE_UP(p) false
#else
#define MAY_GIVE_UP(p) (runs[p] && is_starting[p] && start[p] != texted && (p != 0 || hub == collects))
#endif

// When nothing can happen any more, nobody waits.
proctype Judge() {
  byte p;
  atomic {
    timeout && !MAY_GIVE_UP(0) && !MAY_GIVE_UP(1) && !MAY_GIVE_UP(2) && !MAY_GIVE_UP(N - 1);
    for (p : 0 .. N - 1) { assert(is_over[p] || !runs[p]) }
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. OLD - 1) { members[p] = BIT(OLD) - 1 }
    for (p : 0 .. N - 1) { run Program(p) }
    run Chief();
    run Failures();
    run Judge()
  }
}

// The star of control connections: workers start together, exchange texts, and hear who is lost.
//
// Worker 0 leads. A process is its program (Program) and its connection's thread (Leader, Worker). Any process may
// crash before any of its steps, with or without what it has sent last, or be stopped and go on later. Messages take
// any time, but none is late where silence counts: only who has stopped is silent. Each step names the functions it
// stands for, as file:function.
//
// Faults that can be planted, and the definitions with which they are found:
// PLANT_FORGETS_ONE: -DROUNDS=1 -DFAILURES=1 -DSTOPS=0 -DPATIENT
// PLANT_NAMES_ITSELF: -DROUNDS=1 -DFAILURES=1 -DSTOPS=0 -DPATIENT
// PLANT_OVERLOOKS_A_CLOSED_CONNECTION: -DROUNDS=1 -DFAILURES=1 -DSTOPS=0 -DPATIENT
// PLANT_WAITS_FOR_THE_GONE: -DN=2 -DROUNDS=1 -DFAILURES=0 -DLEAVES_EARLY -DPATIENT
#ifndef N
#define N 3
#endif
#ifndef FAILURES
#define FAILURES 2
#endif
#ifndef STOPS
#define STOPS FAILURES
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

mtype = { hello, refused, started, gather, gathered, failed, lost, left };

// When the start's time may be over: at any moment, or once nothing else can happen.
#ifdef PATIENT
#define IS_LATE timeout
#else
#define IS_LATE true
#endif

#define NOBODY 100
#define LEADER_LEFT 101

chan up[N] = [4] of { mtype, byte };   // to the leader
chan down[N] = [9] of { mtype, byte }; // from it

// Of each process. One of them runs if it has neither crashed nor is stopped.
bool runs[N] = true;
bool is_dead[N], was_stopped[N];
bool has_closed[N];    // the worker has closed its connection, behind what it has sent
bool is_dropped[N];    // the leader has closed it
byte num_failures = 0, num_stops = 0;

// src/workers/control/session.hpp:Session
bool has_settled[N], is_refused[N], is_over[N], has_left[N], is_pending[N];
mtype answer[N];
byte cause[N] = NOBODY; // Session::ended: whose loss
bool is_done[N];        // the program has ended, with or without an error
byte num_rounds[N];     // that it has completed

// src/workers/control/hub.hpp:Hub
bool is_here[N], hub_started, hub_refused;
byte come[ROUNDS]; // bits: who has come to an all_gather
bool is_failed[ROUNDS];
byte first_lost = NOBODY;

// src/workers/control/session.cpp:Session::end_calls
inline end_calls(e_w, e_c) {
  if
  :: cause[e_w] == NOBODY -> cause[e_w] = e_c
  :: else
  fi;
  if
  :: is_pending[e_w] -> is_pending[e_w] = false; answer[e_w] = failed
  :: else
  fi
}

// src/workers/control/session.cpp:Session::lose_leader
inline lose_leader(l_w) {
  if
  :: has_left[l_w] || is_over[l_w]
  :: else ->
    if
    :: has_settled[l_w] && !is_refused[l_w] -> end_calls(l_w, 0)
    :: !has_settled[l_w] -> has_settled[l_w] = true; is_refused[l_w] = true
    :: else
    fi;
    is_over[l_w] = true
  fi
}

// src/workers/control/session.cpp:Session::deliver
inline deliver(d_w, d_m, d_x) {
  if
  :: has_left[d_w] || is_over[d_w]
  :: else ->
    if
    :: d_m == started && !has_settled[d_w] -> has_settled[d_w] = true
    :: d_m == refused && !has_settled[d_w] -> has_settled[d_w] = true; is_refused[d_w] = true
    :: (d_m == started || d_m == refused) && has_settled[d_w]
    :: d_m == gathered || d_m == failed ->
      if
      :: is_pending[d_w] -> is_pending[d_w] = false; answer[d_w] = d_m
      :: else // it has failed before
      fi
    :: d_m == lost ->
      end_calls(d_w, d_x);
      is_over[d_w] = (d_x == 0 || d_x == d_w)
    :: d_m == left && !has_settled[d_w] -> lose_leader(d_w)
    :: d_m == left && has_settled[d_w] && d_x == 0 ->
      end_calls(d_w, LEADER_LEFT);
      is_over[d_w] = true
    :: d_m == left && has_settled[d_w] && d_x != 0
    fi
  fi
}

// src/workers/control/leader_endpoint.cpp:LeaderEndpoint::carry: to one worker.
inline send(s_w, s_m, s_x) {
  if
  :: s_w == 0 -> atomic { deliver(0, s_m, s_x) }
  :: s_w != 0 && !is_dropped[s_w] -> down[s_w]!s_m,s_x
  :: else
  fi
}

// The leader may crash between any two of its messages.
inline may_crash() {
  if
  :: true
  :: num_failures < FAILURES -> is_dead[0] = true; runs[0] = false; num_failures++
  fi
}

// src/workers/control/hub.cpp:Hub::send_to_all
inline send_to_all(a_m, a_x) {
  for (to : 0 .. N - 1) {
    may_crash();
    if
    :: is_here[to] -> send(to, a_m, a_x)
    :: else
    fi
  }
}

// To those that have come to a round.
inline answer_round(n_r, n_m) {
  for (to : 0 .. N - 1) {
    if
    :: (come[n_r] & (1 << to)) && is_here[to] -> send(to, n_m, n_r)
    :: else
    fi
  }
}

// src/workers/control/hub.cpp:Hub::lose_because
inline lose(o_w) {
  if
  :: is_here[o_w] ->
    if
    :: first_lost == NOBODY -> first_lost = o_w
    :: else
    fi;
#ifdef PLANT_FORGETS_ONE
    for (to : 0 .. N - 2) {
      if
      :: is_here[to] -> send(to, lost, o_w)
      :: else
      fi
    }
#elif defined(PLANT_NAMES_ITSELF)
    send_to_all(lost, (o_w + 1) % N);
#else
    send_to_all(lost, o_w);
#endif
    is_here[o_w] = false;
    for (to : 0 .. ROUNDS - 1) { come[to] = 0; is_failed[to] = false }
    // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::drop_gone
    is_dropped[o_w] = true
  :: else
  fi
}

// src/workers/control/hub.cpp:Hub::leave
inline leave(v_w) {
  if
  :: is_here[v_w] ->
    is_here[v_w] = false;
    send_to_all(left, v_w);
    for (r : 0 .. ROUNDS - 1) {
      if
      :: come[r] != 0 && !is_failed[r] && !(come[r] & (1 << v_w)) ->
        is_failed[r] = true;
        answer_round(r, failed)
      :: else
      fi
    }
  :: else
  fi
}

// src/workers/control/hub.cpp:Hub::receive_in_order, of an all_gather.
inline receive_gather(g_w, g_r) {
  if
#ifndef PLANT_WAITS_FOR_THE_GONE
  :: come[g_r] == 0 && (!is_here[0] || !is_here[1] || (N > 2 && !is_here[N - 1])) -> send(g_w, failed, g_r)
  :: else ->
#else
  :: true ->
#endif
    come[g_r] = come[g_r] | (1 << g_w);
    if
    :: is_failed[g_r] -> send(g_w, failed, g_r)
    :: !is_failed[g_r] && come[g_r] == (1 << N) - 1 ->
      answer_round(g_r, gathered); // src/workers/control/hub.cpp:Hub::complete
      come[g_r] = 0
    :: else
    fi
  fi
}

// What comes of a worker: it joins (src/workers/control/leader_endpoint.cpp:LeaderEndpoint::welcome), sends a message,
// or its connection ends (src/workers/control/leader_endpoint.cpp:LeaderEndpoint::serve_worker).
#define HEARS(p) \
    :: up[p]?[hello] -> up[p]?hello,x; w = p; goto joins \
    :: is_here[p] && nempty(up[p]) && !up[p]?[hello] -> up[p]?m,x; w = p; goto receives \
    :: is_here[p] && (is_dead[p] || (empty(up[p]) && (has_closed[p] || !runs[p]))) -> w = p; goto loses

// The leader's thread: src/workers/control/leader_endpoint.cpp:LeaderEndpoint::serve
proctype Leader() provided (runs[0]) {
  byte to = 0, r = 0, w = 0, x = 0;
  mtype m;
  is_here[0] = true;
  do
  :: is_over[0] || has_left[0] -> break
  :: atomic {
    if
    HEARS(1)
#if N > 2
    HEARS(2)
#endif
    // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::send
    :: up[0]?m,x -> w = 0; goto receives
    fi;
  joins: // src/workers/control/hub.cpp:Hub::start_if_complete
    is_here[w] = true;
    if
    :: !hub_refused && is_here[0] && is_here[1] && is_here[N - 1] -> hub_started = true; send_to_all(started, 0)
    :: else
    fi;
    goto served;
  loses: // src/workers/control/leader_endpoint.cpp:LeaderEndpoint::lose
    if
    :: hub_started -> lose(w)
    :: else -> is_here[w] = false // src/workers/control/hub.cpp:Hub::forget
    fi;
    goto served;
  receives: // src/workers/control/hub.cpp:Hub::receive
    if
    :: m == refused -> hub_refused = true; send_to_all(refused, 0) // Hub::refuse
    :: m == left && !hub_started -> is_here[w] = false
    :: m == left && hub_started -> leave(w)
    :: m == gather -> r = x; receive_gather(w, r)
    :: m == lost -> lose(0)
    :: m == hello
    fi;
    has_left[0] = has_left[0] || (m == left && w == 0);
  served:
    r = 0; to = 0; x = 0; w = 0; m = 0
    }
  od;
  atomic { for (w : 0 .. N - 1) { is_dropped[w] = true } } // its links end, behind what was sent
}

// A worker's thread: src/workers/control/worker_endpoint.cpp:WorkerEndpoint::serve
proctype Worker(byte w) provided (runs[(_pid - 1) % N]) {
  byte x;
  mtype m;
  up[w]!hello,0; // src/workers/control/start.cpp:join_leader
  do
  :: atomic { down[w]?m,x -> deliver(w, m, x); m = 0; x = 0 }
#ifndef PLANT_OVERLOOKS_A_CLOSED_CONNECTION
  :: atomic { is_dropped[w] && empty(down[w]) && !is_over[w] && !has_left[w] -> lose_leader(w) }
  :: atomic { is_dead[0] && !is_over[w] && !has_left[w] -> lose_leader(w) } // what it has sent last may be lost
#endif
  :: atomic { !runs[0] && !is_dead[0] && empty(down[w]) && !is_over[w] && !has_left[w] -> // it is silent
      lose_leader(w);
      if
      :: cause[w] != NOBODY -> up[w]!lost,0
      :: else
      fi
    }
  :: atomic { is_over[w] || has_left[w] -> has_closed[w] = true; break }
  od
}

// What uses the connection: src/workers/control/control_connection.cpp:ControlConnection::all_gather
proctype Program(byte w) provided (runs[(_pid - 1) % N]) {
  if
  :: has_settled[w]
  :: atomic { // the start's time is over: src/workers/control/start.cpp:StartPatience::timeout
      IS_LATE && !has_settled[w] ->
      if
      :: w == 0 -> up[0]!refused,0
      :: else -> has_settled[w] = true; is_refused[w] = true
      fi
    }
  fi;
  has_settled[w];
  do
  :: atomic {
      !is_refused[w] && num_rounds[w] < ROUNDS ->
      if
      :: cause[w] != NOBODY -> answer[w] = failed // src/workers/control/session.cpp:Session::add
      :: else -> is_pending[w] = true; up[w]!gather,num_rounds[w]
      fi
    }
    atomic {
      !is_pending[w];
      if
      :: answer[w] == gathered -> num_rounds[w]++
      :: else -> break
      fi
    }
  :: is_refused[w] || num_rounds[w] == ROUNDS -> break
#ifdef LEAVES_EARLY
  :: w == 1 -> break
#endif
  od;
  is_done[w] = true;
  // src/workers/control/control_connection.cpp:ControlConnection::leave, or it stays and hears more
  if
  :: atomic {
      if
      :: !is_over[w] -> up[w]!left,0
      :: else
      fi;
      has_left[w] = has_left[w] || w != 0
    }
  :: cause[w] != NOBODY
  fi
}

#define FAILS(p) \
  :: atomic { num_failures < FAILURES && runs[p] -> is_dead[p] = true; runs[p] = false; num_failures++ } \
  :: atomic { num_stops < STOPS && num_failures < FAILURES && runs[p] && !was_stopped[p] -> num_stops++; \
       was_stopped[p] = true; runs[p] = false; num_failures++ } \
  :: !runs[p] && !is_dead[p] -> runs[p] = true

// Who fails, and when; who is stopped may go on.
proctype Failures() {
  do
  FAILS(0)
  FAILS(1)
#if N > 2
  FAILS(2)
#endif
  od
}

#define WAITS_NOT_TO_START(p) (has_settled[p] || !runs[p])
#define IS_LOSS(c) (c < N)

// When nothing can happen any more, nobody waits, and those that are left agree.
proctype Judge() {
  byte a, b;
  atomic {
  timeout && WAITS_NOT_TO_START(0) && WAITS_NOT_TO_START(1) && WAITS_NOT_TO_START(N - 1);
  for (a : 0 .. N - 1) {
    assert(!runs[a] || is_done[a]);
    if
    :: runs[a] && IS_LOSS(cause[a]) ->
      // A loss is of somebody who has failed, or has given up the start.
      assert(is_dead[cause[a]] || was_stopped[cause[a]] || is_refused[cause[a]]);
      // As long as the leader goes on, all name the first that it has lost.
      assert(cause[a] == first_lost || is_dead[0] || was_stopped[0]);
      for (b : 0 .. N - 1) {
        if
        :: runs[b] && IS_LOSS(cause[b]) && num_failures == 1 &&
           !is_refused[0] && !is_refused[1] && !is_refused[N - 1] ->
          assert(cause[a] == cause[b])
        :: else
        fi
      }
    :: else
    fi
  }
  }
}

#define ENDS(p) (is_done[p] || !runs[p])
ltl everyone_ends { <> (ENDS(0) && ENDS(1) && ENDS(N - 1)) }

init {
  byte w;
  atomic {
    for (w : 0 .. N - 1) { run Program(w) }
    run Leader();
    for (w : 1 .. N - 1) { run Worker(w) }
    run Failures();
#ifndef NO_JUDGE // for claims of temporal logic, which do not go with timeout
    run Judge()
#endif
  }
}

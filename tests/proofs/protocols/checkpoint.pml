// Checkpoints: all workers read the variables together, the chief's thread writes a file and commits it, and old files
// are removed.
//
// The disk: a file's name is there for others at once, and after a power cut if the folder was synchronised since, or
// by chance; so is its removal. A file whose bytes were not synchronised may be torn after a cut. Any worker may crash
// before any of its steps; a cut ends all. Then all start anew, restore the newest file, and save again. Each step
// names the functions it stands for, as file:function.
//
// Faults that can be planted, and the definitions with which they are found. The last is no fault of the library's but
// of its use, which CheckpointManager excludes: two processes save under one prefix.
// PLANT_COMMITS_EARLY: -DSAVES=2 -DFAILURES=1
// PLANT_DOES_NOT_WAIT: -DSAVES=2 -DFAILURES=1
// PLANT_NO_SYNC_OF_THE_FILE: -DSAVES=2 -DFAILURES=1
// PLANT_NO_SYNC_OF_THE_FOLDER: -DSAVES=2 -DFAILURES=1
// PLANT_REMOVES_FIRST: -DSAVES=2 -DFAILURES=1
// PLANT_REMOVES_THE_NEWEST: -DSAVES=2 -DFAILURES=1
// PLANT_OLD_CHIEF_GOES_ON: -DSAVES=2 -DFAILURES=1
#ifndef N
#define N 2
#endif
#ifndef SAVES
#define SAVES 3 // steps 1, 2, ... are saved
#endif
#ifndef KEPT
#define KEPT 1 // CheckpointManagerOptions::max_to_keep
#endif
#ifndef FAILURES
#define FAILURES 1 // crashes and power cuts
#endif
#define CHUNKS 2 // of a file's bytes

// The disk, by step. Of a name: what a reader finds, and what is there after a cut for sure.
bool has_name[SAVES + 1], has_safe_name[SAVES + 1];
bool is_whole[SAVES + 1], is_safe[SAVES + 1]; // its bytes
byte temporary;   // the step whose temporary file is there; 0: none
byte num_written; // of its chunks
bool is_synchronised;
byte newest = 0;      // the highest step that was ever committed, as a reader saw it
byte newest_safe = 0; // and on the disk
byte staging;         // whose values are in the memory from which a file is written
bool is_mixed;        // the file has other values, too

// The run.
byte incarnation = 0, num_failures = 0;
bool is_dead[N], is_done[N];
byte step[N];      // that a worker saves next
byte met[N];       // meetings that a worker has come to in this run
bool has_failed;   // a worker is lost: all calls throw PeerLost
byte restored[N];
bool is_writing;   // the chief's thread is under way
byte writing_step, place; // where it is
#ifdef PLANT_OLD_CHIEF_GOES_ON
byte old_step;
#endif
byte values_of[N]; // the step whose values a worker holds

// src/checkpoint/checkpoint_manager.cpp:CheckpointManager::State::steps
inline find_newest(s) {
  s = SAVES;
  do
  :: s > 0 && !has_name[s] -> s--
  :: else -> break
  od
}

// What must hold whenever somebody may look: the newest file that was committed, or a newer one, is there, and the
// newest of all is whole.
inline check_disk() {
  i = SAVES;
  do
  :: i > 0 && !has_name[i] -> i--
  :: else -> break
  od;
  assert(i >= newest);
  if
  :: i > 0 -> assert(is_whole[i])
  :: else
  fi;
  i = 0
}

// Whoever meets waits until all have come, or one is lost: src/workers/worker_meeting.cpp:WorkerMeeting::meet. A
// program that has crashed, or is of an old run, ends.
#define IS_GONE(w, own) (incarnation != own || is_dead[w])
#define HAVE_MET(w) (met[0] >= met[w] && met[1] >= met[w] && met[N - 1] >= met[w])
#define MEETS(w, own) (IS_GONE(w, own) || has_failed || HAVE_MET(w))

#define SAFE newest_safe = (writing_step > newest_safe -> writing_step : newest_safe)

// The thread that writes: src/checkpoint/checkpoint_manager.cpp:CheckpointManager::State::write. It ends with its
// process.
proctype Writer() {
  byte i, num_old, s;
  end: do
  :: atomic { // src/detail/atomic_file.cpp:remove_abandoned_files
      is_writing && place == 0 ->
      temporary = 0;
      place = 1;
#ifdef PLANT_REMOVES_FIRST
      for (i : 1 .. SAVES) { has_name[i] = false }
      check_disk()
#endif
    }
  :: atomic { is_writing && place == 1 ->
      temporary = writing_step;
      num_written = 0;
      is_synchronised = false;
      is_mixed = false;
      place = 2
    }
#ifdef PLANT_COMMITS_EARLY
  :: atomic { is_writing && place == 2 && num_written >= 1 -> place = 3 }
#endif
  // src/detail/atomic_file.cpp:AtomicFile::write
  :: atomic { is_writing && place == 2 && num_written < CHUNKS ->
      num_written++;
      is_mixed = is_mixed || staging != writing_step
    }
  :: atomic { is_writing && place == 2 && num_written == CHUNKS -> place = 3 }
  // src/detail/atomic_file.cpp:AtomicFile::commit
#ifdef PLANT_NO_SYNC_OF_THE_FILE
  :: atomic { is_writing && place == 3 -> place = 4 }
#else
  :: atomic { is_writing && place == 3 -> is_synchronised = true; place = 4 }
#endif
  :: atomic {
      is_writing && place == 4 -> // the name replaces a file of the same step
      has_name[writing_step] = true;
      is_whole[writing_step] = num_written == CHUNKS && !is_mixed;
      is_safe[writing_step] = is_synchronised && num_written == CHUNKS;
      temporary = 0;
      if
      :: writing_step > newest -> newest = writing_step
      :: else
      fi;
      check_disk();
      place = 5
    }
#ifdef PLANT_NO_SYNC_OF_THE_FOLDER
  :: atomic { is_writing && place == 5 -> SAFE; place = 6 }
#else
  :: atomic { is_writing && place == 5 ->
      for (i : 1 .. SAVES) { has_safe_name[i] = has_name[i] }
      SAFE;
      i = 0;
      place = 6
    }
#endif
  // src/checkpoint/checkpoint_manager.cpp:CheckpointManager::State::remove_old, a file after the other.
  :: atomic {
      is_writing && place == 6 ->
      num_old = 0;
      s = 0;
      for (i : 1 .. SAVES) {
        if
        :: has_name[i] && i != writing_step ->
          num_old++;
          if
          :: s == 0 -> s = i
          :: else
          fi
        :: else
        fi
      }
      if
      :: num_old > KEPT - 1 ->
#ifdef PLANT_REMOVES_THE_NEWEST
        has_name[writing_step] = false;
#else
        has_name[s] = false;
#endif
        check_disk()
      :: else -> is_writing = false; place = 0
      fi;
      i = 0; s = 0; num_old = 0
    }
  od
}

// A worker's program in one run.
proctype Worker(byte w; byte own) {
  byte s;
  // src/checkpoint/checkpoint_manager.cpp:CheckpointManager::restore_latest: the chief chooses, all read.
  atomic {
    if
    :: IS_GONE(w, own) -> goto gone
    :: else ->
      if
      :: w == 0 -> find_newest(s); restored[0] = s
      :: else
      fi;
      met[w]++
    fi
  }
  atomic {
    MEETS(w, own);
    if
    :: IS_GONE(w, own) -> goto gone
    :: has_failed -> goto ends
    :: else -> restored[w] = restored[0]
    fi;
    if
    :: restored[w] > 0 -> assert(has_name[restored[w]] && is_whole[restored[w]])
    :: else
    fi;
    values_of[w] = restored[w];
    step[w] = restored[w] + 1
  }
  do
  :: step[w] <= SAVES ->
    // A step of training, in which all meet.
    atomic {
      if
      :: IS_GONE(w, own) -> goto gone
      :: else -> values_of[w] = step[w]; met[w]++
      fi
    }
    atomic {
      MEETS(w, own);
      if
      :: IS_GONE(w, own) -> goto gone
      :: has_failed -> goto ends
      :: else
      fi
    }
    // src/checkpoint/checkpoint_manager.cpp:CheckpointManager::save: the chief waits for the save before
    // (CheckpointManager::State::finish), and begins this one (CheckpointManager::State::begin) with the values that
    // all have read together (src/checkpoint/checkpoint.cpp:Checkpoint::save). Then all meet
    // (src/strategy/strategy_access.cpp:on_chief).
    atomic {
#ifndef PLANT_DOES_NOT_WAIT
      (IS_GONE(w, own) || w != 0 || !is_writing);
#endif
      if
      :: IS_GONE(w, own) -> goto gone
      :: else
      fi;
      if
      :: w == 0 && !is_writing -> is_writing = true; writing_step = values_of[0]; place = 0; staging = values_of[0]
      :: w == 0 && is_writing -> staging = values_of[0]
      :: else
      fi;
      met[w]++
    }
    atomic {
      MEETS(w, own);
      if
      :: IS_GONE(w, own) -> goto gone
      :: has_failed -> goto ends
      :: else -> step[w]++
      fi
    }
  :: else -> break
  od;
  // src/checkpoint/checkpoint_manager.cpp:CheckpointManager::wait, or the destructor: the save under way is finished.
ends:
  atomic {
    (IS_GONE(w, own) || w != 0 || !is_writing);
    if
    :: !IS_GONE(w, own) -> is_done[w] = true
    :: else
    fi
  }
gone:
  skip
}

// All processes of a new run. The remains of the old one are gone.
inline start() {
  for (p : 0 .. N - 1) {
    is_dead[p] = false;
    is_done[p] = false;
    met[p] = 0;
    step[p] = 0;
    restored[p] = 0;
    values_of[p] = 0
  }
  has_failed = false;
  is_writing = false;
  place = 0;
  for (p : 0 .. N - 1) { run Worker(p, incarnation) }
  p = 0
}

// Crashes, cuts, and the start of the next run.
proctype World() {
  byte p, i;
  atomic { start() }
  end: do
  // A process crashes. The others hear of it; the thread of the chief ends with it.
  :: atomic {
      num_failures < FAILURES ->
      num_failures++;
      if
      :: !is_done[0] && !is_dead[0] ->
        is_dead[0] = true;
#ifdef PLANT_OLD_CHIEF_GOES_ON
        old_step = (is_writing -> writing_step : 0);
#endif
        is_writing = false
      :: !is_done[N - 1] && !is_dead[N - 1] -> is_dead[N - 1] = true
      fi;
      has_failed = true;
      check_disk()
    }
  // The power is cut. What was synchronised is there; what was not is there or not.
  :: atomic {
      num_failures < FAILURES ->
      num_failures++;
      is_writing = false;
      has_failed = true;
      for (p : 0 .. N - 1) { is_dead[p] = true }
      for (p : 1 .. SAVES) {
        if
        :: has_name[p] != has_safe_name[p] ->
          if
          :: has_name[p] = has_safe_name[p]
          :: has_safe_name[p] = has_name[p]
          fi
        :: else
        fi;
        if
        :: has_name[p] && !is_safe[p] ->
          if
          :: is_whole[p] = false
          :: is_safe[p] = true
          fi
        :: else
        fi
      }
      newest = newest_safe;
      check_disk();
      p = 0
    }
  :: atomic {
      has_failed && (is_done[0] || is_dead[0]) && (is_done[1] || is_dead[1]) && (is_done[N - 1] || is_dead[N - 1]) ->
      incarnation++;
      start()
    }
#ifdef PLANT_OLD_CHIEF_GOES_ON
  // The others have gone on without it, and it was only stopped: it commits, and removes what it does not keep.
  :: atomic {
      old_step > 0 && incarnation > 0 ->
      for (p : 1 .. SAVES) { has_name[p] = (p == old_step || (KEPT > 1 && has_name[p])) }
      is_whole[old_step] = true;
      p = 0;
      old_step = 0;
      check_disk()
    }
#endif
  // When nothing can happen any more nobody waits, and the last save is there if none has failed.
  :: atomic {
      timeout ->
      for (p : 0 .. N - 1) { assert(is_done[p] || is_dead[p]) }
      assert(has_failed || (has_name[SAVES] && is_whole[SAVES]));
      break
    }
  od
}

#define ENDS(p) (is_done[p] || is_dead[p])
ltl saves_end { <> (ENDS(0) && ENDS(1) && ENDS(N - 1)) }
ltl newest_stays { [] (newest < 1 || has_name[1] || has_name[2] || has_name[SAVES]) }

init {
  run Writer();
  run World()
}

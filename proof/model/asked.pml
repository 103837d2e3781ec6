/*
 * One walk for each key: what checks and signals ask for, and who makes the tries. Three operations under one key,
 * with positions, up to four goroutines, and workers.
 *
 * A step is one hold of the shard's lock, one atomic access of an operation's word, or one read of the state that the
 * conditions look at. A group is one operation, a batch that makes the walk pause is one that has ended.
 *
 * Operation o waits for position o, until the state has reached want[o]. Slots stand for the list: the operations are in
 * order of position, and the cursor is the slot that comes next. Who leaves so moves it on, and who comes may come to stand
 * before it.
 *
 * BUG_CLEAR looks at asked in one hold of the lock and clears walking in the next; BUG_REST pauses and asks for nothing; BUG_MARKS
 * goes on after a pause and forgets what others had asked for before; BUG_NEWER goes on although a newer walk has begun; BUG_QUEUED
 * goes on although a worker will; BUG_MARK leaves no mark on a walk that is under way; BUG_BUSY leaves none on an operation that is
 * busy; BUG_LAST has the last try in a row clear the mark and let go; BUG_LATE registers without a second try.
 */

#define OPS 3
#define ALL (OPS - 1)
#ifndef LOW
#define LOW 0
#endif

#define NEW     0
#define PENDING 1
#define BUSY    2
#define ENDED   3

#ifndef MAXAGAIN
#define MAXAGAIN 1
#endif
#ifndef MAXROW
#define MAXROW 2
#endif
#ifndef MAXWORKERS
#define MAXWORKERS 1
#endif

byte phase[OPS];
bool again[OPS];
bool wish[OPS];
bool linked[OPS];
byte want[OPS];
byte callbacks[OPS];

byte state;

/* The key's list. */
bool any;                   /* asked */
byte upTo;
bool walking;
bool queued;
byte number;
byte cur;                   /* the slot that comes next */

byte workers;

/* What is watched over, not part of the protocol. */
byte need[OPS];             /* the state for which a check has come that has to reach it */
byte seen[OPS];             /* the state that its last try saw */
byte owner;                 /* whose walk is under way */

#define AWAITED (linked[0] || linked[1] || linked[2])

inline ask(u) {
	if
	:: any && upTo > u
	:: else -> upTo = u
	fi;
	any = true
}

inline enqueue() {
	if
	:: queued
	:: else -> queued = true;
		if
		:: workers < MAXWORKERS -> workers++; run worker()
		:: else
		fi
	fi
}

/* Under the lock: takes what was asked for, and puts the cursor before the first. */
inline fromHead() {
	number++; mine = number; my = upTo; any = false; upTo = 0; cur = 0
}

inline beginLocked() {
	walking = true; rounds = 0; fromHead(); owner = _pid; readLocked()
}

/* Under the lock: reads the next one, or begins again, or ends the walk. */
inline readLocked() {
	assert(owner == _pid);
	do
	:: cur <= my && cur < OPS && !linked[cur] -> cur++
	:: cur <= my && cur < OPS && linked[cur] -> got = cur; has = true; cur++; break
#ifdef BUG_CLEAR
	:: !(cur <= my && cur < OPS) && any && rounds < MAXAGAIN -> rounds++; fromHead()
	:: !(cur <= my && cur < OPS) && !(any && rounds < MAXAGAIN) -> leaves = any; clears = true; break
#else
	:: !(cur <= my && cur < OPS) && any && rounds < MAXAGAIN -> rounds++; fromHead()
	:: !(cur <= my && cur < OPS) && !(any && rounds < MAXAGAIN) ->
		walking = false;
		if
		:: any -> enqueue()
		:: else
		fi;
		break
#endif
	od
}

/* Under the lock: takes o out of the list, and the key out of the map if that was the last. */
inline unlink(o) {
	linked[o] = false;
	if
	:: !AWAITED ->
		number++; walking = false; queued = false; any = false; upTo = 0
	:: else
	fi
}

/* A check. What it is for is a change of the state, which came before. */
inline check(u) {
	atomic {
		needs(u);
		if
		:: AWAITED ->
#ifdef BUG_MARK
			if
			:: !walking -> ask(u); beginLocked()
			:: else
			fi
#else
			ask(u);
			if
			:: !walking -> beginLocked()
			:: else
			fi
#endif
		:: else
		fi
	};
	walk()
}

inline needs(u) {
	o = 0;
	do
	:: o < OPS && linked[o] && o <= u -> need[o] = state; o++
	:: o < OPS && !(linked[o] && o <= u) -> o++
	:: o == OPS -> break
	od;
	o = 0
}

inline signal(u) {
	if
	:: AWAITED -> ask(u);
		if
		:: !walking -> enqueue()
		:: else
		fi
	:: else
	fi
}

/* The caller holds p: it tries p until it ends it or lets it go. */
inline runner(p) {
	looks = 1;
	do
	:: atomic { assert(phase[p] == BUSY && callbacks[p] == 0); seen[p] = state };
		atomic {
			if
			:: seen[p] >= want[p] -> ends = true; break
			:: else ->
				if
				:: again[p] && looks < MAXROW -> again[p] = false; looks++
				:: wish[p] && !(again[p] && looks < MAXROW) -> ends = true; break
				:: !wish[p] && !(again[p] && looks < MAXROW) ->
					phase[p] = PENDING;
#ifndef BUG_LAST
					hand = again[p];
#endif
					again[p] = false; break
				fi
			fi
		}
	od;
	looks = 0;
	if
	:: hand -> atomic { hand = false; signal(ALL) }
	:: else
	fi
}

inline settle(p) {
	atomic { assert(phase[p] == BUSY); phase[p] = ENDED; again[p] = false; wish[p] = false };
	atomic { callbacks[p]++; assert(callbacks[p] == 1) }
}

/* The walk that has begun, if it has, from its first operation to its end. */
inline walk() {
	do
	:: has -> has = false;
		atomic {
			if
			:: phase[got] == PENDING -> phase[got] = BUSY; held = true
#ifndef BUG_BUSY
			:: phase[got] == BUSY -> again[got] = true
#endif
			:: else
			fi
		};
		if
		:: held -> held = false; runner(got)
		:: else
		fi;
		atomic {
			if
			:: ends -> unlink(got)
			:: else
			fi;
			if
			:: number != mine               /* the key has left the map: it is over */
			:: number == mine && ends ->    /* it pauses */
				paused = true; marks = any; marksUpTo = upTo;
#ifndef BUG_REST
				ask(my);
#endif
				walking = false
			:: number == mine && !ends -> readLocked()
			fi
		};
		if
		:: ends -> ends = false; settle(got)
		:: else
		fi;
		if
		:: paused -> atomic {
				paused = false;
				if
#ifdef BUG_NEWER
				:: !queued && AWAITED -> owner = _pid;
#else
#ifdef BUG_QUEUED
				:: number == mine -> owner = _pid;
#else
				:: number == mine && !queued -> owner = _pid;
#endif
#endif
#ifdef BUG_MARKS
					any = false; upTo = 0;
#else
					any = marks; upTo = marksUpTo;
#endif
					walking = true; readLocked()
				:: else
				fi;
				marks = false; marksUpTo = 0
			}
		:: else
		fi
#ifdef BUG_CLEAR
	:: clears -> clears = false;
		atomic {
			if
			:: number == mine -> walking = false;
				if
				:: leaves -> enqueue()
				:: else
				fi
			:: else
			fi;
			leaves = false
		}
	:: !has && !clears -> break
#else
	:: !has -> break
#endif
	od;
	atomic { mine = 0; my = 0; got = 0; rounds = 0 }
}

#define LOCALS \
	byte mine; byte my; byte got; byte rounds; byte looks; byte o; byte marksUpTo; \
	bool has; bool held; bool ends; bool hand; bool paused; bool marks; bool leaves; bool clears

proctype worker() {
	LOCALS;
	do
	:: atomic { queued -> queued = false;
			if
			:: any && !walking -> beginLocked()
			:: else
			fi };
		walk()
	:: atomic { !queued -> workers-- }; break
	od
}

proctype checking(byte u) {
	LOCALS;
	state++;
	check(u)
}

proctype signalling(byte u) {
	LOCALS;
	state++;
	atomic { needs(u); signal(u) }
}

/* A cancellation of the key: it claims those that nobody holds, and leaves a wish with the holders of the others. */
proctype cancelling() {
	LOCALS;
	do
	:: got < OPS ->
		atomic {
			if
			:: linked[got] && phase[got] == PENDING -> phase[got] = BUSY; ends = true; unlink(got)
			:: linked[got] && phase[got] == BUSY -> wish[got] = true
			:: else
			fi
		};
		if
		:: ends -> ends = false; settle(got)
		:: else
		fi;
		got++
	:: else -> break
	od
}

proctype registering(byte p) {
	LOCALS;
	phase[p] = BUSY;
	atomic { seen[p] = state; ends = seen[p] >= want[p] };
	if
	:: ends -> ends = false; settle(p)
	:: else ->
		linked[p] = true;
#ifdef BUG_LATE
		atomic { phase[p] = PENDING; again[p] = false };
#else
		runner(p);
#endif
		if
		:: ends -> ends = false; atomic { unlink(p) }; settle(p)
		:: else
		fi
	fi
}

inline pending(p, w) { phase[p] = PENDING; linked[p] = true; want[p] = w }

inline atRest(p) {
	assert(phase[p] != BUSY && !wish[p]);
	assert((phase[p] == ENDED) == (callbacks[p] == 1));
	assert(linked[p] == (phase[p] == PENDING));
	assert(!linked[p] || seen[p] >= need[p])        /* lost wake-up */
}

init {
	atomic {
#ifdef SCENARIO_CHECKS
		pending(0, 2); pending(1, 1); pending(2, 3);
		run checking(ALL); run checking(ALL); run checking(LOW);
#endif
#ifdef SCENARIO_SIGNALS
		pending(0, 2); pending(1, 1); pending(2, 3);
		run checking(ALL); run signalling(LOW); run signalling(ALL);
#endif
#ifdef SCENARIO_REGISTER
		pending(0, 2); pending(2, 1); want[1] = 2;
		run registering(1); run checking(ALL); run checking(ALL);
#endif
#ifdef SCENARIO_CANCEL
		pending(0, 2); pending(1, 1); pending(2, 3);
		run checking(ALL); run checking(LOW); run cancelling();
#endif
#ifdef SCENARIO_MAP
		pending(1, 1); want[0] = 3; want[2] = 2;
		run checking(ALL); run registering(0); run registering(2); run signalling(ALL);
#endif
#ifdef SCENARIO_MAP_CANCEL
		pending(1, 2); want[0] = 3; want[2] = 3;
		run checking(ALL); run registering(0); run cancelling(); run checking(LOW);
#endif
	}
	(_nr_pr == 1);
	d_step { atRest(0); atRest(1); atRest(2); assert(!walking && !queued && !any && workers == 0) }
}

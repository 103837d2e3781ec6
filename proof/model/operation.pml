/*
 * The protocol of one delayed operation: two operations, two keys (each its own shard),
 * three or four goroutines.
 *
 * A step of this model is one atomic access of the code, one hold of a lock, or one read
 * inside the user's TryComplete. A compare-and-swap loop is one step: attempts that fail
 * write nothing, so only the one that succeeds is seen by others. Memory is sequentially
 * consistent, as Go's atomics and mutexes are.
 *
 * spin -D... chooses the scenario (SCENARIO_x) and puts a known bug in (BUG_x); run.sh
 * holds the list of both.
 */

/* The word of an operation: phase, again, wish, outcome. */
#define NEW     0
#define PENDING 1
#define BUSY    2
#define ENDED   3

#define NONE      0
#define SATISFIED 1
#define FORCED    2
#define EXPIRED   3
#define CANCELLED 4
#define CLOSED    5

/* The deadline word of a timer entry: none, a deadline of 1 or 2, or how it ended. */
#define NODEADLINE 0
#define FIRED      8
#define STOPPED    9

#ifndef MAXLOOKS
#define MAXLOOKS 7          /* more than any scenario can cause */
#endif
#ifndef MAXWORKERS
#define MAXWORKERS 1
#endif

#if defined(SCENARIO_ANY) || defined(SCENARIO_ANY_ANY) || defined(SCENARIO_RACE) || \
	defined(SCENARIO_ONE_ANY_ANY) || defined(SCENARIO_PENDING)
#define ANY
#endif

#define AT(o, k) ((o) * 2 + (k))

byte phase[2];
bool owner[2];              /* it was submitted here, not elsewhere */
bool released[2];           /* the accepted bit: from the first release on */
bool again[2];
byte wish[2];
byte outcome[2];

bool linked[4];             /* AT(o,k): the node of o is in the list of k */
bool stale[4];              /* AT(o,k): and on the stale list of k's shard, for the purge */
bool closedShard[2];
bool shard[2];              /* the shards' locks */

byte deadline[2];           /* the timer's word */
byte place[2];              /* the bucket that the entry was put in */
bool inWheel[2];
byte now = 1;
bool timerStopped;

bool state[2];              /* what the user's conditions look at: one fact per key */
bool marked[2];             /* a signal for the key waits for a worker */
byte workers;

#ifdef BUG_SIGNAL_MARK
bool queued[2];
#endif
#ifdef BUG_2253
byte generation[2];         /* of the key's list: a list that got empty left the map */
bool orphan[4];             /* AT(o,k): linked in a list that is in no map */
#endif

/* What is watched over, not part of the protocol. */
bool accepted[2];
bool rejected[2];
bool inTry[2];
bool inCallback[2];
byte callbacks[2];
byte extendedTo[2];
bool closing;
bool registers[2];          /* a registration is under way */
bool returned;              /* Shutdown has */
bool nested;

/* Operation 0 is watched under both keys and wants both facts; operation 1 is watched
 * under key 1 (under both with WIDE) and wants the fact of key 1. */
#ifdef WIDE
#define WATCHES(o, k) (true)
#else
#define WATCHES(o, k) ((o) == 0 || (k) == 1)
#endif
#define CONDITION(o, first) (state[1] && ((o) == 1 || (first)))

#define FIRST(o) (WATCHES(o, 0) -> 0 : 1)

/* ---- the user's code ------------------------------------------------------------- */

inline tryComplete(o) {
	d_step {
		assert(phase[o] == BUSY);
		assert(!inTry[o] && !inCallback[o] && callbacks[o] == 0);
		inTry[o] = true;
		first = state[0];
	};
#ifdef SCENARIO_NESTED
	/* It changes the other's fact, once, and checks the other's key: a worker does. */
	if
	:: o == 0 && !nested -> nested = true; state[1] = true;
#ifndef BUG_NESTED
		signal(1)
#endif
	:: else
	fi;
#endif
	d_step {
		yes = CONDITION(o, first);
		first = false;
		inTry[o] = false;
	}
}

inline onComplete(o) {
	d_step {
		assert(phase[o] == ENDED && outcome[o] != NONE);
		assert(!inTry[o] && !inCallback[o]);
		assert(accepted[o] && !rejected[o]);
		callbacks[o]++;
		assert(callbacks[o] == 1);
		inCallback[o] = true;
	};
#ifdef SCENARIO_SHUTDOWN
	if
	:: holdsUp -> returned          /* Close's callbacks block until Shutdown has returned */
	:: else
	fi;
#endif
	inCallback[o] = false
}

/* ---- locks ----------------------------------------------------------------------- */

#define LOCK(k)   (!shard[k]) -> shard[k] = true
#define UNLOCK(k) shard[k] = false

inline unlinkNode(o, k) {
	linked[AT(o, k)] = false;
#ifdef BUG_2253
	if
	:: !linked[AT(0, k)] && !linked[AT(1, k)] -> generation[k]++
	:: else
	fi;
#endif
}

/* ---- the runner ------------------------------------------------------------------ */

/* After a no: look again, carry out a wish, or let go. more tells the runner to try again. */
inline release(o) {
	atomic {
		if
#ifdef BUG_8334
		/* The mark is set by those who find the operation busy, but this path lets go
		 * without looking at it. */
		:: wish[o] == NONE -> phase[o] = PENDING; released[o] = true; more = false
#else
		:: again[o] && looks < MAXLOOKS -> again[o] = false; looks++; more = true
		:: again[o] && looks == MAXLOOKS && wish[o] == NONE ->
			again[o] = false; phase[o] = PENDING; released[o] = true; more = false;
#ifndef BUG_LOOKS
			handOver = true
#endif
#endif
#ifdef BUG_WISH
		:: !again[o] -> phase[o] = PENDING; released[o] = true; more = false
#else
		:: wish[o] != NONE && (!again[o] || looks == MAXLOOKS) -> claim[o] = wish[o]; more = false
#ifndef BUG_8334
		:: wish[o] == NONE && !again[o] -> phase[o] = PENDING; released[o] = true; more = false
#endif
#endif
		fi
	}
	if
	:: handOver -> handOver = false; signal(1)
	:: else
	fi
}

/* The goroutine holds o busy: it tries until it claims o or lets it go. */
inline runner(o) {
	do
	:: tryComplete(o);
		if
		:: yes -> d_step { claim[o] = SATISFIED; yes = false }; break
		:: else -> release(o);
			if
			:: more -> more = false
			:: else -> break
			fi
		fi
	od;
	looks = 0
}

/* An outcome asked for from outside: take it, or leave a wish with who runs it. */
inline end(o, how) {
	atomic {
		if
		:: phase[o] == PENDING -> phase[o] = BUSY; claim[o] = how
		:: phase[o] == BUSY ->
#ifdef BUG_19312
			if
			:: how == EXPIRED -> claim[o] = how
			:: else ->
				if
				:: wish[o] == NONE -> wish[o] = how
				:: else
				fi
			fi
#else
			if
			:: wish[o] == NONE -> wish[o] = how
			:: else
			fi
#endif
		:: else
		fi
	}
}

/* The same for an operation that the caller was given: the owner is in the word that the
 * claim changes, so that one step checks it and claims. */
inline endOwn(o, how) {
	atomic {
		if
		:: owner[o] && phase[o] == PENDING -> phase[o] = BUSY; claim[o] = how
		:: owner[o] && phase[o] == BUSY && wish[o] == NONE -> wish[o] = how
		:: else
		fi
	}
}

/* ---- what follows a claim: unlink, timer, settle, callbacks ----------------------- */

/* home is the shard whose lock is waited for; another shard's lock is only tried. */
inline unlink(k) {
	if
	:: (claim[0] != NONE && linked[AT(0, k)]) || (claim[1] != NONE && linked[AT(1, k)]) ->
		if
		:: atomic { LOCK(k);
				if
				:: claim[0] != NONE && linked[AT(0, k)] -> unlinkNode(0, k)
				:: else
				fi;
				if
				:: claim[1] != NONE && linked[AT(1, k)] -> unlinkNode(1, k)
				:: else
				fi };
			UNLOCK(k)
		:: atomic { shard[k] && home != k ->
				if
				:: claim[0] != NONE && linked[AT(0, k)] -> stale[AT(0, k)] = true
				:: else
				fi;
				if
				:: claim[1] != NONE && linked[AT(1, k)] -> stale[AT(1, k)] = true
				:: else
				fi }
		fi
	:: else
	fi
}

inline cancelTimer(o) {
	if
	:: claim[o] != NONE && deadline[o] != NODEADLINE ->
		atomic {
			if
			:: deadline[o] != FIRED -> deadline[o] = STOPPED
			:: else
			fi
		};
		inWheel[o] = false          /* under the timer's lock */
	:: else
	fi
}

inline settle(o) {
	d_step {
		if
		:: claim[o] != NONE ->
			assert(phase[o] == BUSY);
			assert(claim[o] != EXPIRED || extendedTo[o] <= now);
			phase[o] = ENDED; outcome[o] = claim[o]; again[o] = false; wish[o] = NONE;
		:: else
		fi
	}
}

/* Callbacks run here, or, for Shutdown and after a late expiry, on workers. */
inline answer(o) {
	if
	:: claim[o] != NONE && onWork -> run answering(o); claim[o] = NONE
	:: claim[o] != NONE && !onWork -> onComplete(o); claim[o] = NONE
	:: else
	fi
}

inline finish() {
	if
	:: claim[0] != NONE || claim[1] != NONE ->
		unlink(0); unlink(1);
		cancelTimer(0); cancelTimer(1);
		settle(0); settle(1);
		answer(0); answer(1)
	:: else
	fi
}

/* ---- the verbs ------------------------------------------------------------------- */

#ifdef BUG_2253
/* The list is looked up in one hold of the lock and appended to in another. */
inline link(o, k) {
	atomic { LOCK(k); refused = closedShard[k]; seen = generation[k] }; UNLOCK(k);
	if
	:: !refused -> atomic { LOCK(k);
			if
			:: generation[k] == seen -> linked[AT(o, k)] = true
			:: else -> orphan[AT(o, k)] = true
			fi;
			seen = 0 };
		UNLOCK(k)
	:: else
	fi
}
#else
#ifdef BUG_CLOSE
/* The closed flag is read before the list's lock is taken, not under it. */
inline link(o, k) {
	refused = closedShard[k];
	if
	:: !refused -> atomic { LOCK(k); linked[AT(o, k)] = true }; UNLOCK(k)
	:: else
	fi
}
#else
inline link(o, k) {
	atomic { LOCK(k);
		refused = closedShard[k];
		if
		:: !refused -> linked[AT(o, k)] = true
		:: else
		fi };
	UNLOCK(k)
}
#endif
#endif

/* Under a further key: no shard refuses what the first has accepted. */
inline linkFurther(o, k) {
#ifdef BUG_2253
	link(o, k)
#else
	atomic { LOCK(k); linked[AT(o, k)] = true }; UNLOCK(k)
#endif
}

/* Not accepted, and no list has seen it. It is used. */
inline reject(o) {
	d_step { wish[o] = NONE; again[o] = false; rejected[o] = true; refused = false; phase[o] = ENDED }
}

inline cancelEntry(o) {
	atomic {                                /* under the timer's lock */
		if
		:: deadline[o] < FIRED -> deadline[o] = STOPPED; inWheel[o] = false
		:: else
		fi
	}
}

inline schedule(o) {
	atomic {                                /* under the timer's lock */
		if
		:: !timerStopped -> deadline[o] = 1; place[o] = 1; inWheel[o] = true
		:: else -> refused = true
		fi
	}
}

/* An expiry that found the operation being registered: the registration ends it, at once, and
 * a worker runs the callbacks. */
inline lateExpiry(o) {
	if
#ifdef BUG_CLEAR
	/* It is let go and scheduled once more, and Close's wish is dropped with the expiry. */
	:: claim[o] == EXPIRED ->
		claim[o] = NONE;
		atomic { wish[o] = NONE; again[o] = false; phase[o] = PENDING; released[o] = true };
		schedule(o);
		refused = false
#else
	:: claim[o] == EXPIRED -> onWork = true
#endif
	:: else
	fi
}

inline registerOp(o) {
	d_step { assert(phase[o] == NEW); phase[o] = BUSY; owner[o] = true; registers[o] = true };
	tryComplete(o);                                     /* first try */
	if
	:: yes -> atomic { LOCK(FIRST(o)); refused = closedShard[FIRST(o)]; accepted[o] = !refused };
		UNLOCK(FIRST(o));
		yes = false;
		if
		:: refused -> reject(o)
		:: else -> claim[o] = SATISFIED
		fi
	:: else ->
		schedule(o);                                /* the timer first: it can refuse */
		if
		:: refused -> reject(o)
		:: else ->
			link(o, FIRST(o));                  /* this shard decides */
			if
			:: refused -> cancelEntry(o); reject(o)
			:: else ->
				accepted[o] = true;
				if
				:: WATCHES(o, 0) -> linkFurther(o, 1)
				:: else
				fi;
#ifdef BUG_NOSECOND
				release(o);
				if
				:: more -> more = false; runner(o)
				:: else
				fi;
#else
				runner(o);                  /* second try */
#endif
				lateExpiry(o)
			fi
		fi
	fi;
	finish();
	onWork = false;
	registers[o] = false
}

inline tryCollected(o) {
	if
	:: collected & (1 << o) ->
		atomic {
			if
			:: phase[o] == PENDING -> phase[o] = BUSY; mine = true
#ifdef BUG_6653
			:: phase[o] == BUSY    /* somebody is at it: leave it to them */
#else
			:: phase[o] == BUSY -> again[o] = true
#endif
			:: else
			fi
		};
		if
		:: mine -> mine = false; runner(o)
		:: else
		fi
	:: else
	fi
}

inline collect(k) {
	atomic { LOCK(k); collected = linked[AT(0, k)] | (linked[AT(1, k)] << 1); home = k }; UNLOCK(k)
}

#define EACH_COLLECTED(verb) \
	do \
	:: o < 2 -> verb; o++ \
	:: else -> d_step { o = 0; collected = 0 }; break \
	od

inline check(k) { collect(k); EACH_COLLECTED(tryCollected(o)) }

inline endCollected(o, how) {
	if
	:: collected & (1 << o) -> end(o, how)
	:: else
	fi
}

inline cancelForKey(k) { collect(k); EACH_COLLECTED(endCollected(o, CANCELLED)) }

/* Marks the key; a worker is started when one is wanted and the bound allows it. */
inline signal(k) {
	atomic {
		if
		:: marked[k] || closing
		:: else -> marked[k] = true;
#ifdef BUG_SIGNAL_MARK
			queued[k] = true;
#endif
			if
			:: workers < MAXWORKERS -> workers++; run worker()
			:: else
			fi
		fi
	}
}

inline purge() {
	k = 0;
	do
	:: k < 2 ->
		atomic { LOCK(k);
			if
			:: stale[AT(0, k)] -> stale[AT(0, k)] = false; unlinkNode(0, k)
			:: else
			fi;
			if
			:: stale[AT(1, k)] -> stale[AT(1, k)] = false; unlinkNode(1, k)
			:: else
			fi };
		UNLOCK(k);
		k++
	:: else -> break
	od;
	k = 0
}

inline closeOne(k) {
	atomic { LOCK(k); closedShard[k] = true; home = k; collected = linked[AT(0, k)] | (linked[AT(1, k)] << 1) };
	UNLOCK(k);
	EACH_COLLECTED(endCollected(o, CLOSED));
	finish()
}

/* The second Close leaves it to the first, which a callback may hold up. Shutdown does not. */
inline close() {
	atomic { mine = !closing; closing = true };
	if
#ifdef BUG_FIRST
	:: mine -> mine = false; closeOne(0); closeOne(1)
#else
	:: mine || onWork -> mine = false; closeOne(0); closeOne(1)
#endif
	:: else
	fi
}

/* A timer worker: takes what is due out of the wheel, then decides by the deadline word. */
inline fire(o) {
#ifdef BUG_EXTEND
	/* Compares and writes in two steps. */
	d_step { due = deadline[o] <= now };
	atomic {
		if
		:: due -> deadline[o] = FIRED
		:: else
		fi
	};
#else
	atomic {
		if
		:: deadline[o] <= now -> deadline[o] = FIRED; due = true
		:: else
		fi
	};
#endif
	if
	:: due -> due = false; end(o, EXPIRED); finish()
	:: else -> atomic {                     /* moved or stopped: under the timer's lock */
			if
			:: deadline[o] <= 2 && timerStopped -> deadline[o] = STOPPED
			:: deadline[o] <= 2 && !timerStopped -> place[o] = deadline[o]; inWheel[o] = true
			:: else
			fi }
	fi
}

/* Stop takes out everything. */
inline stopOne(o) {
	if
	:: inWheel[o] -> inWheel[o] = false; deadline[o] = STOPPED
	:: else
	fi
}
inline stopTimer() { d_step { timerStopped = true; stopOne(0); stopOne(1) } }

inline expire() {
	if
	:: skip
	:: now = 2                              /* time goes on, or does not */
	fi;
	do
	:: atomic { inWheel[0] && place[0] <= now -> inWheel[0] = false; o = 0 }; fire(o)
	:: atomic { inWheel[1] && place[1] <= now -> inWheel[1] = false; o = 1 }; fire(o)
	:: !(inWheel[0] && place[0] <= now) && !(inWheel[1] && place[1] <= now) -> break
	od;
	o = 0
}

inline extend(o) {
	d_step { mine = released[o] && owner[o] };
	atomic {
		if
		:: mine && deadline[o] == 1 -> deadline[o] = 2; extendedTo[o] = 2
		:: else
		fi;
		mine = false
	}
}

/* ---- goroutines ------------------------------------------------------------------ */

#define LOCALS \
	byte claim[2]; byte collected; byte looks; byte home = 2; byte o; byte k; \
	bool yes; bool first; bool more; bool mine; bool refused; bool due; bool handOver; bool onWork; \
	bool holdsUp; byte seen

proctype worker() {
	LOCALS;
	do
#ifdef BUG_SIGNAL_MARK
	/* The mark goes only after the check: what is signalled meanwhile is taken for done. */
	:: atomic {
			if
			:: queued[0] -> queued[0] = false; k = 0
			:: queued[1] -> queued[1] = false; k = 1
			fi };
		check(k); finish(); marked[k] = false; d_step { home = 2; k = 0 }
	:: atomic { !queued[0] && !queued[1] -> workers-- }; break
#else
	:: atomic {
			if
			:: marked[0] -> marked[0] = false; k = 0
			:: marked[1] -> marked[1] = false; k = 1
			fi };
		check(k); finish(); d_step { home = 2; k = 0 }
	:: atomic { !marked[0] && !marked[1] -> workers-- }; break
#endif
	od;
	assert(workers <= MAXWORKERS)
}

/* A worker runs the callbacks that were handed over. */
proctype answering(byte op)     { bool holdsUp; onComplete(op) }
proctype registering(byte op)   { LOCALS; registerOp(op) }
proctype checking(byte key)     { LOCALS; state[key] = true; check(key); finish() }
proctype signalling(byte key)   { LOCALS; state[key] = true; signal(key) }
proctype signallingOnly()       { LOCALS; signal(1) }
proctype forcing()              { LOCALS; endOwn(0, FORCED); finish() }
proctype cancelling()           { LOCALS; cancelForKey(1); finish() }
proctype expiring()             { LOCALS; expire() }
proctype extending()            { LOCALS; extend(0) }
proctype closingAll() {
	LOCALS;
#ifdef SCENARIO_SHUTDOWN
	holdsUp = true;
#endif
	close();
	stopTimer()
}
/* Shutdown, with a context that has ended. */
#define LEFT(o) (phase[o] == PENDING && !registers[o])
proctype shuttingDown() {
	LOCALS;
	onWork = true;
#ifndef BUG_SHUTDOWN
	close();
#endif
	d_step { assert(!LEFT(0) && !LEFT(1)); returned = true };
	stopTimer()
}
proctype purging()              { LOCALS; purge() }

/* Any one verb, by number. */
#define VERBS 10
#ifdef ANY
proctype any(byte verb) {
	LOCALS;
	bool last;
	if
	:: verb <= 1 -> k = verb; verb = 0; state[k] = true; check(k)
	:: verb == 2 -> verb = 0; state[1] = true; signal(1)
	:: verb == 3 -> verb = 0; endOwn(0, FORCED)
	:: verb == 4 -> verb = 0; endOwn(1, CANCELLED)
	:: verb == 5 -> verb = 0; cancelForKey(1)
	:: verb == 6 -> verb = 0; expire()
	:: verb == 7 -> verb = 0; extend(0)
	:: verb == 8 -> verb = 0; close(); last = true
	:: verb == 9 -> verb = 0; purge()
	fi;
	finish();
	if
	:: last -> stopTimer()
	:: else
	fi
}
#endif

/* An operation that was registered before the scenario begins. */
inline registered(o) {
	phase[o] = PENDING; accepted[o] = true; owner[o] = true; released[o] = true;
	linked[AT(o, 0)] = WATCHES(o, 0); linked[AT(o, 1)] = true;
	deadline[o] = 1; place[o] = 1; inWheel[o] = true
}

/* ---- at rest --------------------------------------------------------------------- */

inline atRest(o) {
	assert(!inTry[o] && !inCallback[o]);
	if
	:: phase[o] == ENDED && rejected[o] -> assert(callbacks[o] == 0 && outcome[o] == NONE)
	:: phase[o] == ENDED && !rejected[o] -> assert(accepted[o] && callbacks[o] == 1)
	:: phase[o] == PENDING ->
		assert(callbacks[o] == 0 && !rejected[o]);
		assert(wish[o] == NONE);                /* lost force, cancel, expiry or close */
		assert(!CONDITION(o, state[0]));        /* lost wake-up */
		assert(inWheel[o] && deadline[o] <= 2); /* or its timeout would not answer it */
		assert(linked[AT(o, 1)] && (linked[AT(o, 0)] || !WATCHES(o, 0)));
		assert(!closing)                        /* unanswered after Close */
	:: phase[o] == NEW
	:: phase[o] == BUSY -> assert(false)            /* nobody holds it */
	fi;
	/* Purged twice over, nothing refers to what has ended. */
	if
	:: phase[o] == ENDED ->
		assert(!inWheel[o] && !linked[AT(o, 0)] && !linked[AT(o, 1)]);
		assert(!stale[AT(o, 0)] && !stale[AT(o, 1)])
	:: else
	fi
}

init {
	byte k, a, b, c;
	atomic {
#ifdef SCENARIO_CHECKS
		run registering(0); run registering(1); run checking(0); run checking(1);
#endif
#ifdef SCENARIO_PENDING
		registered(0); registered(1);
		select(a : 0 .. VERBS - 1); select(b : 0 .. a); select(c : 0 .. b);
		run any(a); run any(b);
#ifndef TWO
		run any(c);
#endif
#endif
#ifdef SCENARIO_ANY
		select(a : 0 .. VERBS - 1);
		run registering(0); run registering(1); run any(a);
#endif
#ifdef SCENARIO_ONE_ANY_ANY
		select(a : 0 .. VERBS - 1); select(b : 0 .. a);
		run registering(0); run any(a); run any(b);
#endif
#ifdef SCENARIO_RACE
		registered(1); select(a : 0 .. VERBS - 1); select(b : 0 .. a);
		run registering(0); run any(a); run any(b);
#endif
#ifdef SCENARIO_ANY_ANY
		select(a : 0 .. VERBS - 1); select(b : 0 .. a);
		run registering(0); run registering(1); run any(a); run any(b);
#endif
#ifdef SCENARIO_EXPIRY
		run registering(0); run registering(1); run expiring(); run checking(1);
#endif
#ifdef SCENARIO_CLOSE
		run registering(0); run registering(1); run closingAll(); run expiring();
#endif
#ifdef SCENARIO_REJECTED
		run registering(0); run forcing(); run closingAll(); run expiring();
#endif
#ifdef SCENARIO_NESTED
		registered(1); run registering(0); run checking(0); run forcing();
#endif
#ifdef SCENARIO_SHUTDOWN
		registered(0); run registering(1); run closingAll(); run shuttingDown();
#endif
#ifdef SCENARIO_SHUTDOWN_CHECK
		registered(0); run registering(1); run checking(1); run shuttingDown();
#endif
#ifdef SCENARIO_FORCE
		run registering(0); run forcing(); run cancelling(); run checking(1);
#endif
#ifdef SCENARIO_LISTS
		run registering(0); run registering(1); run forcing(); run checking(1);
#endif
#ifdef SCENARIO_EXTEND
		registered(0); registered(1);
		run extending(); run expiring(); run expiring(); run checking(1);
#endif
#ifdef SCENARIO_SIGNAL
		run registering(0); run signalling(0); run signalling(1); run checking(1);
#endif
#ifdef SCENARIO_SIGNAL_TWICE
		registered(0); registered(1);
		run signallingOnly(); run signalling(0); run signalling(1);
#endif
#ifdef SCENARIO_PURGE
		registered(0); run registering(1); run checking(0); run checking(1); run purging();
#endif
		a = 0; b = 0; c = 0
	}
	(_nr_pr == 1);
#ifndef BUG_STALE
	purge();
#endif
	d_step { atRest(0); atRest(1) }
}

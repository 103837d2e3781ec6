/*
 * Who wakes the clock: two goroutines that add entries, two shards, the driver.
 *
 * An adder puts its entry into its shard under the shard's lock, lowers the shard's next,
 * and after that reads wake, the tick that the driver sleeps on. If its own is earlier, it
 * lowers wake and wakes the driver. The driver sets wake to scanning, reads every shard's
 * next, sets wake to the earliest if it still is scanning, sleeps. BUG_PUBLISH computes
 * the earliest and publishes it after, in a second step (Tokio #6682).
 *
 * Time moves whenever it likes (now), also while others are between two steps.
 */

#define NEVER    7
#define SCANNING 7
#define LATEST   3

byte next[2] = NEVER;       /* of each shard: when it needs the clock */
byte entry[2];              /* the deadline of its entry, 0: none */
byte wake = NEVER;
bool wakeup;                /* the channel of capacity 1 */
byte now;
byte adding = 2;
byte fired;
byte cancelled;

proctype adder(byte s; byte at) {
	bool earlier;
	atomic { entry[s] = at;                 /* under the shard's lock */
		if
		:: at < next[s] -> next[s] = at
		:: else
		fi };
	if
	:: at < wake ->
		atomic { earlier = at < wake;   /* a loop of compare-and-swap */
			if
			:: earlier -> wake = at
			:: else
			fi };
		if
		:: earlier -> wakeup = true
		:: else
		fi
	:: else
	fi;
	adding--
}

/* Takes the entry of shard 0 out again, or comes too late. next stays: a lower bound. */
proctype canceller() {
	atomic {
		if
		:: entry[0] != 0 -> entry[0] = 0; cancelled++
		:: else
		fi
	}
}

proctype driver() {
	byte s, earliest, tick;
end:	do
	:: true ->
		s = 0;
		do                              /* flush */
		:: s < 2 ->
			if
			:: next[s] <= now ->
				atomic {        /* under the shard's lock */
					if
					:: entry[s] != 0 && entry[s] <= now -> entry[s] = 0; fired++
					:: else
					fi;
					if
					:: entry[s] != 0 -> next[s] = entry[s]
					:: else -> next[s] = NEVER
					fi }
			:: else
			fi;
			s++
		:: else -> break
		od;

#ifndef BUG_PUBLISH
		wake = SCANNING;
#endif
		earliest = NEVER; s = 0;
		do
		:: s < 2 -> earliest = (next[s] < earliest -> next[s] : earliest); s++
		:: else -> break
		od;
#ifdef BUG_PUBLISH
		wake = earliest;
#else
		atomic {
			if
			:: wake == SCANNING -> wake = earliest
			:: else         /* an adder has lowered it: wakeup follows */
			fi };
#endif
		tick = earliest; earliest = 0;

endsleep:	if                              /* sleep */
		:: tick <= now
		:: wakeup -> wakeup = false
		fi;
		tick = 0
	od
}

proctype time() {
	do
	:: now < LATEST -> now++
	:: else -> break
	od
}

init {
	byte a, b;
	atomic {
		select(a : 1 .. LATEST); select(b : 1 .. LATEST);
		run adder(0, a); run adder(1, b); run driver(); run time();
#ifdef CANCEL
		run canceller();
#endif
		a = 0; b = 0
	}
	timeout ->                              /* nobody has anything left to do */
	assert(adding == 0 && now == LATEST);
	assert(fired + cancelled == 2);         /* or one is slept over */
	assert(entry[0] == 0 && entry[1] == 0)
}

/*
 * Who wakes the clock: two goroutines that add entries, two shards, the driver.
 *
 * An adder puts its entry into its shard under the shard's lock, lowers the shard's next,
 * and after that reads wake, the time that the driver sleeps on. If its own is earlier, it
 * wakes the driver. The driver reads every shard's next, sets wake to the earliest, reads
 * every next again and begins anew if one is earlier, sleeps. BUG_PUBLISH does not look
 * again (Tokio #6682).
 *
 * Time moves whenever it likes (now), also while others are between two steps.
 */

#define NEVER    7
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
	atomic { entry[s] = at;                 /* under the shard's lock */
		if
		:: at < next[s] -> next[s] = at
		:: else
		fi };
	if
	:: at < wake -> wakeup = true
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

		do
		:: earliest = NEVER; s = 0;
			do
			:: s < 2 -> earliest = (next[s] < earliest -> next[s] : earliest); s++
			:: else -> break
			od;
			wake = earliest;
#ifdef BUG_PUBLISH
			break
#else
			s = 0;
			do
			:: s < 2 && next[s] >= earliest -> s++
			:: else -> break
			od;
			if
			:: s == 2 -> break
			:: else         /* one is earlier */
			fi
#endif
		od;
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

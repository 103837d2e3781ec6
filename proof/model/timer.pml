/*
 * One entry of the timer: Extend, to a later deadline and to an earlier one, against expiry,
 * Cancel, and Stop.
 *
 * Whoever changes the deadline, or the list that the entry is in, holds the shard's lock. Two
 * workers take due entries; time moves as it likes.
 */

#define CANCELLED 8
#define FIRED     16

byte word;                  /* 0: never added; the deadline; CANCELLED; FIRED + deadline */
byte place;                 /* the bucket's tick, 0: in no list */
bool shard;
byte now = 1;
bool stopped;

byte runs;
bool cancelTrue;
bool stopTrue;
byte promised;              /* the deadline that the last Extend has promised */
byte added;                 /* 1: scheduled, 2: refused */

#define LATEST 3
#define LOCK   !shard -> shard = true

proctype adding() {
	atomic { LOCK;
		if
		:: stopped -> added = 2
		:: else -> word = 1; place = 1; added = 1
		fi };
	shard = false
}

proctype extending(byte to) {
	(added != 0);
#ifdef BUG_EXTEND
	atomic {                        /* does not wait for the lock */
#else
	atomic { LOCK;
#endif
		if
		:: place != 0 -> promised = to;
			if
			:: to < word -> place = to      /* an earlier one is placed anew */
			:: else
			fi;
			word = to
		:: else
		fi };
#ifndef BUG_EXTEND
	shard = false
#endif
}

proctype cancelling() {
	(added != 0);
	atomic { LOCK; cancelTrue = place != 0;
		if
		:: cancelTrue -> place = 0
		:: else
		fi };
	if
	:: cancelTrue -> word = CANCELLED
	:: else
	fi;
	shard = false
}

proctype stopping() {
	atomic { LOCK; stopped = true; stopTrue = place != 0;
		if
		:: stopTrue -> place = 0
		:: else
		fi };
	if
	:: stopTrue -> word = CANCELLED
	:: else
	fi;
	shard = false
}

proctype worker() {
	byte deadline, read;
	bool mine;
end:	do
	:: atomic { !shard && place != 0 && place <= now -> shard = true };
		read = now;                     /* the clock is read once */
		deadline = word;
		if
		:: deadline > read -> place = deadline
		:: else -> word = FIRED + deadline; place = 0; mine = true
		fi;
		shard = false;
		if
		:: mine ->
			d_step {
				runs++; mine = false;
				assert(runs == 1);
				assert(!cancelTrue && !stopTrue);
				assert(promised <= now)         /* never before what Extend promised */
			}
		:: else
		fi;
		deadline = 0; read = 0
	od
}

proctype time() {
	do
	:: now < LATEST -> now++
	:: else -> break
	od
}

init {
	atomic {
		run adding(); run extending(2); run extending(3); run time();
		run worker(); run worker();
#ifdef SCENARIO_CANCEL
		run cancelling();
#endif
#ifdef SCENARIO_STOP
		run stopping();
#endif
#ifdef SCENARIO_SHORTEN
		run extending(1);
#endif
	}
	timeout ->
	assert(now == LATEST && !shard && place == 0);
	assert(runs + cancelTrue + stopTrue + (added == 2) == 1)
}

/*
 * The pool of workers that exist only while there is work: three goroutines queue a piece
 * of work each and call Kick; at most LIMIT workers.
 *
 * A worker that finds nothing decrements running first and looks once more after that.
 * BUG_POOL looks once more first and decrements after.
 */

#ifndef LIMIT
#define LIMIT 1
#endif

byte queued;
byte done;
byte running;

inline kick() {
	atomic {
		if
		:: running < LIMIT -> running++; run worker()
		:: else
		fi
	}
}

proctype worker() {
	bool again;
	do
	:: atomic { queued > 0 -> queued-- }; done++
	:: atomic { queued == 0 -> skip }; break
	od;
#ifdef BUG_POOL
	again = queued > 0;
	running--;
#else
	running--;
	again = queued > 0;
#endif
	if
	:: again -> kick()
	:: else
	fi;
	assert(running <= LIMIT)
}

proctype producer() { queued++; kick() }

init {
	atomic { run producer(); run producer(); run producer() }
	(_nr_pr == 1);
	assert(queued == 0 && done == 3 && running == 0)
}

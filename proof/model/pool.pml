/*
 * The pool of workers that exist only while there is work: three goroutines queue a piece
 * of work each and call Kick; at most LIMIT workers, of which one is being started at a time,
 * as with one processor.
 *
 * A worker that finds nothing decrements running first and looks once more after that.
 * BUG_POOL looks once more first and decrements after.
 *
 * A worker that has taken work looks for more before it does it. With BLOCKS the first piece of
 * work goes on until the others are done, so another worker has to do these. BUG_STARTED says
 * only after its first piece of work that it has started.
 */

#ifndef LIMIT
#define LIMIT 1
#endif

byte queued;
byte taken;
byte done;
byte running;
bool starting;

inline kick() {
	atomic {
		if
		:: running < LIMIT && !starting -> running++; starting = true; run worker()
		:: else
		fi
	}
}

proctype worker() {
	bool again;
	byte mine;
#ifndef BUG_STARTED
	starting = false;
#endif
	do
	:: atomic { queued > 0 -> queued--; mine = taken; taken++ };
		if
		:: queued > 0 -> kick()
		:: else
		fi;
#ifdef BLOCKS
		if
		:: mine == 0 -> done == 2
		:: else
		fi;
#endif
		done++;
#ifdef BUG_STARTED
		starting = false
#endif
	:: atomic { queued == 0 -> skip }; break
	od;
#ifdef BUG_STARTED
	starting = false;
#endif
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
	assert(queued == 0 && done == 3 && running == 0 && !starting)
}

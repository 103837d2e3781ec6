/*
 * The pool of workers that exist only while there is work, and one of them perhaps a moment longer:
 * PIECES goroutines queue a piece of work each and call Kick; at most LIMIT workers, of which one is being
 * started at a time, as with one processor.
 *
 * A worker that finds nothing decrements running first and looks once more after that.
 * BUG_POOL looks once more first and decrements after.
 *
 * A worker that has taken work looks for more before it does it. With BLOCKS the first piece of
 * work goes on until the others are done, so another worker has to do these. BUG_STARTED says
 * only after its first piece of work that it has started.
 *
 * With LINGERS a worker that has done work may linger. Who wakes it, a kick or the timer, puts a token into a channel
 * that has room for one. It counts as none until it has asked for a place. BUG_TOKEN lets another one linger before the
 * token is taken, so that a second token finds no room. The timer fires at any time; it says that it is not set any more
 * before it looks for somebody to wake, and BUG_TIMED after.
 */

#ifndef LIMIT
#define LIMIT 1
#endif

#ifndef LINGERS
#define LINGERS 0
#endif

#ifndef PIECES
#define PIECES 3
#endif

byte queued;
byte taken;
byte done;
byte running;
bool starting;

mtype = { nobody, one, woken };
mtype lingers = nobody;
bool timed;
chan wake = [1] of { bit };

#ifdef BUG_TOKEN
#define WOKEN nobody
#else
#define WOKEN woken
#endif

inline put() {
	if
	:: nfull(wake) -> wake ! 1
	:: full(wake)
	fi
}

inline kick() {
	atomic {
		if
		:: lingers == one -> lingers = WOKEN; put()
		:: lingers != one && running < LIMIT && !starting -> running++; starting = true; run worker()
		:: else
		fi
	}
}

inline rouse() {
	atomic {
		if
		:: lingers == one -> lingers = WOKEN; put()
		:: else
		fi
	}
}

proctype timer() {
#ifdef BUG_TIMED
	rouse();
	timed = false
#else
	timed = false;
	rouse()
#endif
}

proctype worker() {
	bool again, worked;
	byte mine;
begin:
	worked = false;
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
		:: mine == 0 -> done == PIECES - 1
		:: else
		fi;
#endif
		done++;
		worked = true;
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
	assert(running <= LIMIT);
	if
	:: atomic { LINGERS && worked && lingers == nobody -> lingers = one };
		atomic {
			if
			:: !timed -> timed = true; run timer()
			:: else
			fi
		}
		wake ? _;
		if
		:: atomic { running < LIMIT && !starting -> running++; starting = true; worked = true }
		:: atomic { running == LIMIT || starting -> worked = false }
		fi;
		if
		:: atomic { lingers == woken -> lingers = nobody }
		:: atomic { lingers == nobody || lingers == one -> skip }
		fi;
		if
		:: worked -> goto begin
		:: else
		fi
	:: skip /* it must not, or another one does */
	fi
}

proctype producer() {
	queued++;
	kick()
}

init {
	atomic {
		run producer();
		run producer();
		if
		:: PIECES == 3 -> run producer()
		:: else
		fi
	}
	(_nr_pr == 1);
	assert(queued == 0 && done == PIECES && running == 0 && !starting && lingers == nobody && empty(wake))
}

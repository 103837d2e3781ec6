/*
 * One entry of the timer: Extend and Shorten against expiry, Cancel, and Stop.
 *
 * The deadline word is changed by Extend without the shard's lock (compare-and-swap), and by
 * everybody else under it. Two workers take due entries; time moves as it likes.
 */

#define CANCELLED 8
#define FIRED     16

byte word;                  /* 0: never added; deadline; CANCELLED; FIRED + deadline */
byte place;                 /* the bucket's tick, 0: in no list */
bool shard;
byte now = 1;
bool stopped;

byte runs;
bool cancelTrue;
bool stopTrue;
byte promised;              /* the latest deadline that an Extend has promised */
bool shortened;
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
	byte old;
	bool late, done;
	(added != 0);
	do
	:: !done ->
		old = word;
		late = old == 0 || old >= CANCELLED;
		if
		:: late -> done = true
		:: !late && to < old -> done = true     /* that is Shorten's */
		:: !late && to >= old ->
			atomic {
				if
				:: word == old -> word = to; done = true;
					promised = (to > promised -> to : promised)
				:: else
				fi
			}
		fi
	:: else -> break
	od;
	old = 0; late = false; done = false
}

proctype shortening() {
	(added != 0);
	atomic { LOCK;
		if
		:: place != 0 && word > 1 -> word = 1; promised = 0; shortened = true; place = 1
		:: else
		fi };
	shard = false
}

proctype cancelling() {
	(added != 0);
	if
	:: word != 0 && word < CANCELLED ->
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
	:: else
	fi
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
#ifdef BUG_EXTEND
		if
		:: deadline > read -> place = deadline
		:: else -> word = FIRED + deadline; place = 0; mine = true
		fi;
#else
		if
		:: deadline > read -> place = deadline
		:: else ->
			atomic {
				if
				:: word == deadline -> word = FIRED + deadline; place = 0; mine = true
				:: else
				fi
			}
		fi;
#endif
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
		run shortening();
#endif
	}
	timeout ->
	assert(now == LATEST && !shard && place == 0);
	assert(runs + cancelTrue + stopTrue + (added == 2) == 1)
}

/*
 * The gate of callbacks of one watcher shard: at most LIMIT goroutines (and frames of one
 * goroutine) run callbacks; who comes then queues behind them, and whoever leaves runs
 * what is queued first.
 *
 * Three goroutines end operations 0, 1, 2. The callback of 0 ends operation 3 on the same
 * shard; that of 1 blocks until that of 2 has run. Two helpers stand for the workers to
 * whom the reaper hands a queue that nobody comes to.
 *
 * With NOHELPERS there are none, and with NOBLOCK nothing blocks: then nothing may be left
 * for them either.
 *
 * BUG_QUEUE queues before the outcome is settled; BUG_LEAVE looks at the queue and leaves
 * in two holds of the lock; BUG_DRAIN takes the whole queue at once, so that one blocked
 * callback holds up those behind it, which no helper can see.
 */

#ifndef LIMIT
#define LIMIT 1
#endif

byte running;
byte queue;                 /* a set: bit o for operation o */
bool settled[4];
byte callbacks[4];

#define BIT(o) (1 << (o))

inline push(o) { running++; todo[depth] = BIT(o); depth++ }

/* Leave: enters, or has to queue, once it is settled. */
inline finish(o) {
#ifdef BUG_QUEUE
	atomic {
		if
		:: running < LIMIT -> push(o)
		:: else -> queue = queue | BIT(o)
		fi
	};
	settled[o] = true
#else
	atomic {
		if
		:: running < LIMIT -> push(o)
		:: else -> late = true
		fi
	};
	settled[o] = true;
	if
	:: late -> atomic {                     /* Queue: unless there is room by now */
			late = false;
			if
			:: running < LIMIT -> push(o)
			:: else -> queue = queue | BIT(o)
			fi
		}
	:: else
	fi;
#endif
	assert(depth <= LIMIT + 1)
}

inline callback(o) {
	d_step {
		assert(settled[o]);
		callbacks[o]++;
		assert(callbacks[o] == 1)
	};
	if
	:: o == 0 -> finish(3)
#ifdef NOBLOCK
	:: o == 1
#else
	:: o == 1 -> (callbacks[2] == 1)
#endif
	:: o >= 2
	fi
}

inline exit() {
#ifdef BUG_LEAVE
	if
	:: queue == 0 -> atomic { running--; depth-- }
	:: else ->
		atomic { if :: queue != 0 -> take() :: else fi }
	fi
#else
	atomic {
		if
		:: queue == 0 -> running--; depth--
		:: else -> take()
		fi
	}
#endif
}

#ifdef BUG_DRAIN
inline take() { todo[depth - 1] = queue; queue = 0 }
#else
/* The lowest bit only: the rest can be seen by others. */
inline take() { todo[depth - 1] = queue & -queue & 15; queue = queue & (queue - 1) }
#endif

inline runAll() {
	do
	:: depth > 0 ->
		if
		:: todo[depth - 1] & 1 -> todo[depth - 1] = todo[depth - 1] & 14; callback(0)
		:: todo[depth - 1] & 2 -> todo[depth - 1] = todo[depth - 1] & 13; callback(1)
		:: todo[depth - 1] & 4 -> todo[depth - 1] = todo[depth - 1] & 11; callback(2)
		:: todo[depth - 1] & 8 -> todo[depth - 1] = todo[depth - 1] & 7;  callback(3)
		:: todo[depth - 1] == 0 -> exit()
		fi
	:: else -> break
	od
}

proctype ending(byte op) {
	byte todo[3]; byte depth; bool late;
	if
	:: op == 0 -> finish(0)
	:: op == 1 -> finish(1)
	:: op == 2 -> finish(2)
	fi;
	runAll()
}

#ifndef NOHELPERS
proctype helper() {
	byte todo[3]; byte depth; bool late;
end:	do
	:: atomic { queue != 0 -> running++; depth = 1 }; runAll()
	od
}
#endif

init {
	atomic {
		run ending(0); run ending(1); run ending(2);
#ifndef NOHELPERS
		run helper(); run helper()
#endif
	}
	timeout ->
	assert(callbacks[0] == 1 && callbacks[1] == 1 && callbacks[2] == 1 && callbacks[3] == 1);
	assert(running == 0 && queue == 0)
}

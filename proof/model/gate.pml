/*
 * Who runs the callbacks of an operation that has ended: the goroutine that ended it, unless
 * its own stack is deep; then a worker, whose stack is not.
 *
 * To look at the stack is dear. So there are gates, which everybody passes who is about to run
 * callbacks: who finds somebody inside (itself further down its stack, or another goroutine)
 * looks; who finds nobody does not. Operation o passes gate o % GATES.
 *
 * Operations 0, 1, 2 are ended by a goroutine each. The callback of 0 ends 3, that of 3 ends 4,
 * and so on to 6, a chain that nests; that of 1 blocks until that of 2 has run: crowds of
 * blocked callbacks delay nobody. A stack of DEEP callbacks is deep.
 *
 * BUG_CROWD takes whoever is not alone for deep; BUG_DEPTH never looks; BUG_STRANGER has who
 * leaves run what others have handed over; BUG_KICK hands over and tells nobody; BUG_QUEUE
 * hands over before the outcome is settled.
 */

#ifndef GATES
#define GATES 1
#endif
#ifndef DEEP
#define DEEP 2
#endif
#ifndef MAXWORKERS
#define MAXWORKERS 1
#endif

#define OPS 7
#define WORKER 7

byte inside[GATES];
byte queue;                 /* a set: bit o for operation o, handed to the workers */
byte workers;
bool settled[OPS];
byte callbacks[OPS];

#define BIT(o) (1 << (o))

#define LOCALS \
	byte stack[DEEP + GATES + 2]; bool entered[DEEP + GATES + 2]; bool ran[DEEP + GATES + 2]; \
	byte depth; byte o; bool alone; byte before; byte me

inline push(op, gate) {
	depth++; stack[depth] = op; entered[depth] = gate; ran[depth] = false;
	assert(depth <= DEEP + GATES)           /* whatever the length of the chain */
}

inline hand(op) {
	queue = queue | BIT(op);
#ifndef BUG_KICK
	if
	:: workers < MAXWORKERS -> workers++; run worker()
	:: else
	fi
#endif
}

/* op has been claimed: settle it, and run its callback here or leave it to a worker. */
inline finish(op) {
#ifndef BUG_QUEUE
	settled[op] = true;
#endif
	atomic { alone = inside[op % GATES] == 0; inside[op % GATES]++ };
	atomic {
		if
#ifdef BUG_CROWD
		:: !alone -> hand(op); inside[op % GATES]--
		:: else -> push(op, true)
#else
#ifdef BUG_DEPTH
		:: push(op, true)
#else
		:: !alone && depth >= DEEP -> hand(op); inside[op % GATES]--
		:: else -> push(op, true)
#endif
#endif
		fi;
		alone = false
	};
#ifdef BUG_QUEUE
	settled[op] = true
#endif
}

/* A goroutine runs only what it has ended: 0 and its chain, 1, or 2; workers anything. */
#define OWN(op) (me == WORKER || op == me || (me == 0 && op >= 3))

inline callback(op) {
	d_step {
		assert(settled[op]);
		assert(OWN(op));                /* nobody runs another goroutine's callbacks */
		callbacks[op]++;
		assert(callbacks[op] == 1)
	};
	if
	:: op == 0 -> finish(3)
	:: op >= 3 && op < OPS - 1 -> o = op + 1; finish(o)
	:: op == 1 -> (callbacks[2] == 1)
	:: op == 2 || op == OPS - 1
	fi
}

inline leave() {
	atomic {
		if
		:: entered[depth] -> inside[stack[depth] % GATES]--
		:: else
		fi;
		depth--
	}
#ifdef BUG_STRANGER
	;
	atomic {
		if
		:: queue != 0 -> take()
		:: else
		fi
	}
#endif
}

inline take() {
	o = 0;
	do
	:: queue & BIT(o) -> break
	:: else -> o++
	od;
	queue = queue & (queue - 1);
	push(o, false)
}

inline runAll() {
	do
	:: depth > 0 && !ran[depth] -> ran[depth] = true; before = stack[depth]; callback(before)
	:: depth > 0 && ran[depth] -> leave()
	:: depth == 0 -> break
	od
}

proctype ending(byte op) {
	LOCALS;
	me = op;
	finish(op);
	runAll()
}

proctype worker() {
	LOCALS;
	me = WORKER;
	do
	:: atomic { queue != 0 -> take() }; runAll()
	:: atomic { queue == 0 -> workers-- }; break
	od
}

init {
	atomic { run ending(0); run ending(1); run ending(2) }
	timeout ->
	d_step {
		assert(callbacks[0] == 1 && callbacks[1] == 1 && callbacks[2] == 1);
		assert(callbacks[3] == 1 && callbacks[4] == 1 && callbacks[5] == 1 && callbacks[6] == 1);
		assert(inside[0] == 0 && inside[GATES - 1] == 0 && queue == 0 && workers == 0)
	}
}

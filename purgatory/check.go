package purgatory

import (
	"math/rand/v2"
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/watchers"
)

// CheckAndComplete tries every operation that waits for one of keys, and ends those
// whose condition is met. Call it after the state that they wait for has changed. It
// returns how many it ended. It does not block.
//
// It tries the operations of a key in the order in which they were registered (those that
// wait for a position after the others, in order of position), and an operation that waits
// for several of the keys once. It goes from key to key. The callbacks of up to 128
// operations of a key run on this goroutine after all of these have been tried and ended. The
// purgatory holds no lock meanwhile. If you hold a lock that an operation's method takes, use
// [DelayedOperationPurgatory.Signal] or an [ActionQueue].
//
// Some of the work may be left to other goroutines, and what they end is not counted. If
// another goroutine is trying an operation at this moment, that goroutine tries it again.
// Inside a TryComplete, and on a stack of over 400 frames, CheckAndComplete may leave the
// check to a signal worker, as Signal does.
func (p *DelayedOperationPurgatory[K]) CheckAndComplete(keys ...K) (completed int) {
	if len(keys) == 1 {
		return p.check(keys[0], p.watchers.Hash(keys[0]), EveryPosition, nil)
	}
	hashed, seen := make([]watchers.Signalled[K], 0, len(keys)), make(map[K]struct{}, len(keys))
	for _, key := range keys {
		if _, twice := seen[key]; !twice {
			seen[key] = struct{}{}
			hashed = append(hashed, watchers.Signalled[K]{Key: key, Hash: p.watchers.Hash(key), UpTo: EveryPosition})
		}
	}
	return p.checkTogether(hashed)
}

// checkTogether checks keys, and tries an operation that waits for several of them once.
func (p *DelayedOperationPurgatory[K]) checkTogether(keys []watchers.Signalled[K]) (completed int) {
	together := new(watchers.Together)
	i := 0
	defer func() { // after runtime.Goexit in a callback workers check the other keys
		for _, k := range keys[min(i+1, len(keys)):] {
			p.signal(k.Key, k.Hash, k.UpTo, together)
		}
	}()
	for ; i < len(keys); i++ {
		completed += p.check(keys[i].Key, keys[i].Hash, keys[i].UpTo, together)
	}
	return completed
}

// CheckAndCompleteUpTo is [DelayedOperationPurgatory.CheckAndComplete] for a key whose
// state has reached position. It tries all operations that wait for no position on the
// key, and then those that wait for this position or a lower one, in order of position.
// Its cost does not depend on how many wait for higher positions.
func (p *DelayedOperationPurgatory[K]) CheckAndCompleteUpTo(key K, position int64) (completed int) {
	return p.check(key, p.watchers.Hash(key), position, nil)
}

func (p *DelayedOperationPurgatory[K]) check(key K, hash uint64, upTo int64, together *watchers.Together) int {
	sched.Yield()
	if p.nests.Load() && p.nested() {
		p.signal(key, hash, upTo, together)
		return 0
	}
	c := p.newCheck(p.watchers.Shard(hash))
	c.together = together
	return c.begin(key, hash, upTo)
}

// nested reports whether a check must not be made on this goroutine, because it would
// nest too deeply, or multiply: each of a key's operations may check another key from its
// TryComplete, whose operations check the next, and so on.
//
// To look at the stack takes longer than most checks. So a check calls nested only if
// another goroutine may be inside its gate (see suspects), if it comes to an operation that
// is being tried, if it walks over more than one batch, and once in a while, see
// [watchers.Shard.Tried]. When nested has found a check inside a TryComplete, it sets nests:
// from then on every check of the purgatory calls it.
func (p *DelayedOperationPurgatory[K]) nested() bool {
	deep, inTry := p.look()
	sched.Yield()
	if inTry && !p.nests.Load() {
		p.nests.Store(true)
	}
	return deep || inTry
}

// look is [machine.Nesting], and has suspects know if the stack is deep.
func (p *DelayedOperationPurgatory[K]) look() (deep, inTry bool) {
	if deep, inTry = machine.Nesting(); deep {
		p.notAlone.Store(0)
	}
	return deep, inTry
}

// suspects reports whether a goroutine that is not alone in a gate has to look at its stack.
// Either it nests, or others run callbacks for the same gate. Beside a thousand blocked
// callbacks each completion would look, and take four times as long. So the first firstLooks
// goroutines look, and after them one in eight. Once a stack was found to be deep, it is the
// first ones again.
func (p *DelayedOperationPurgatory[K]) suspects() bool {
	if p.notAlone.Load() < firstLooks { // a crowd only reads the counter
		p.notAlone.Add(1)
		return true
	}
	return rand.Uint32()%8 == 0 // random: a chain and others that take turns evade a pattern
}

const firstLooks = 64

// looks reports whether a registration of m has to call tooDeep: if checks or registrations
// are known to be nested, and else for one in 512 addresses. Unlike a counter, an address
// is at hand without contention.
func (p *DelayedOperationPurgatory[K]) looks(m *machine.Machine) bool {
	address := uint64(uintptr(unsafe.Pointer(m))) // safe: it is never converted back
	return address*0x9e3779b97f4a7c15>>(64-9) == 0 || p.nests.Load()
}

// tooDeep reports whether a registration must not make a try on this goroutine, because it
// would nest too deeply: each TryComplete may register the next operation.
func (p *DelayedOperationPurgatory[K]) tooDeep() bool {
	deep, inTry := machine.Nesting()
	if deep && inTry && !p.nests.Load() {
		p.nests.Store(true)
	}
	return deep && inTry
}

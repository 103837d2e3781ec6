package signals

import (
	"iter"
	"reflect"
	"slices"
)

// Waiters receives the hints of a [Runner]. A *purgatory.Purgatory and the
// result of [Several] are Waiters.
type Waiters[K comparable] interface {
	// SignalUpTo signals key up to position, and reports whether an operation waits for key.
	SignalUpTo(key K, position int64) (awaited bool)
	// Keys returns the keys that are waited for.
	Keys() iter.Seq[K]
}

// Several combines purgatories that need the same hints, for example the fetches and the
// joins of a broker. The function of [WithResync] gets a key that is waited for in two of
// them twice.
func Several[K comparable](all ...Waiters[K]) Waiters[K] { return several[K](slices.Clone(all)) }

type several[K comparable] []Waiters[K]

func (s several[K]) SignalUpTo(key K, position int64) (awaited bool) {
	for _, w := range s {
		awaited = w.SignalUpTo(key, position) || awaited
	}
	return awaited
}

func (s several[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, w := range s {
			for key := range w.Keys() {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// Part returns the part of p whose keys satisfy in. Use it where a subject space is divided
// into shards, each with a source of its own: a Runner for each, on the part of p that has
// the shard's keys, re-checks these keys only when the subscription of its source has a gap.
// Its audits visit all keys of p, but signal only those of the part.
func Part[K comparable](p Waiters[K], in func(key K) bool) Waiters[K] { return part[K]{p, in} }

type part[K comparable] struct {
	Waiters[K]
	in func(K) bool
}

func (p part[K]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range p.Waiters.Keys() {
			if p.in(key) && !yield(key) {
				return
			}
		}
	}
}

// isNil reports whether v is nil, or an interface that holds a nil pointer or function, or
// consists of such Waiters.
func isNil[K comparable](v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case several[K]:
		for _, w := range v {
			if isNil[K](w) {
				return true
			}
		}
		return false
	case part[K]:
		return v.in == nil || isNil[K](v.Waiters)
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Slice, reflect.Interface:
		return r.IsNil()
	default:
		return false
	}
}

package purgatory

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
)

// isWait reports whether op is the operation behind an Await, an AwaitRead or a Wait.
func isWait(op any) bool {
	_, ok := op.(interface{ waitsIn() string })
	return ok
}

// kindOf names op in errors and logs: by its type, or as "Await" or "AwaitRead" if op is
// the operation behind such a call.
func kindOf(op any) string {
	if w, ok := op.(interface{ waitsIn() string }); ok {
		return w.waitsIn()
	}
	return fmt.Sprintf("%T", op)
}

// nameOf returns what the String method of m's operation returns, or the operation's kind if it has
// none. It is for the holder of m, and for the goroutine that has just run one of m's callbacks.
// A panic goes to h.
func nameOf(m *machine.Machine, h guard.Handler) string {
	return cmp.Or(textOf(m, h), kindOf(m.Operation()))
}

// textOf is nameOf without the kind. String runs apart: a runtime.Goexit there does not undo what
// the calling goroutine has found out.
func textOf(m *machine.Machine, h guard.Handler) (text string) {
	if s, ok := m.Operation().(fmt.Stringer); ok {
		guard.Apart(func() { text = cut(s.String()) }, h)
	}
	return text
}

// keyText formats a key.
func keyText(key any) string { return cut(guard.Text(key)) }

const maxText = 200 // bytes of a key or an operation

// cut returns valid UTF-8 of bounded length.
func cut(s string) string {
	if len(s) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

package observe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/delayedop/purgatory/internal/guard"
	"github.com/delayedop/purgatory/internal/machine"
)

// WaitsIn returns "Await" or "Wait" if op is the operation behind one, else "".
func WaitsIn(op any) string {
	if w, ok := op.(interface{ WaitsIn() string }); ok {
		return w.WaitsIn()
	}
	return ""
}

// Kind names op in errors and records: by what it waits in, or by its type.
func Kind(op any) string { return cmp.Or(WaitsIn(op), fmt.Sprintf("%T", op)) }

// Name returns what the String method of m's operation returns, or the operation's kind if it has
// none. It is for the holder of m, and for the goroutine that has just run one of m's callbacks.
// A panic goes to h.
func Name(m *machine.Machine, h guard.Handler) string {
	return cmp.Or(Text(m, h), Kind(m.Operation()))
}

// Text is Name without the kind. String runs apart: a runtime.Goexit there does not undo what
// the calling goroutine has found out.
func Text(m *machine.Machine, h guard.Handler) (text string) {
	if s, ok := m.Operation().(fmt.Stringer); ok {
		guard.Apart(func() { text = cut(s.String()) }, h)
	}
	return text
}

// Key formats a key.
func Key(key any) string { return cut(guard.Text(key)) }

const maxText = 200 // bytes of a key or an operation

// cut returns valid UTF-8 of bounded length.
func cut(s string) string {
	const invalid = "\uFFFD"
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, invalid)
	}
	// A character that is cut in two becomes an invalid one at the end.
	return strings.TrimSuffix(strings.ToValidUTF8(s[:maxText], invalid), invalid) + "…"
}

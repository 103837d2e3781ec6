package purgatorytest

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/delayedop/purgatory/internal/guard"
)

// misuse has what the server under test must not do: what it calls from an operation's methods. It
// is safe for concurrent use.
type misuse struct {
	mu struct {
		sync.Mutex
		said []string // each once
	}
}

// called is told of each check and signal, before it is made.
func (m *misuse) called(key any, signal bool) {
	if signal {
		return
	}
	if in, ok := methodOnStack(); ok && in.name == "TryComplete" {
		m.say(fmt.Sprintf("%s calls CheckAndComplete of %s at %s: that runs the methods of other operations inside this one; use Signal there", in.who, guard.Text(key), in.at))
	}
}

// awaits is told of each wait that is about to block. It panics if that blocks a goroutine which
// runs an operation's method.
func (m *misuse) awaits() {
	if in, ok := methodOnStack(); ok {
		text := fmt.Sprintf("%s calls Await at %s: that blocks the goroutine that has to end operations; start a goroutine, or use StartWait", in.who, in.at)
		m.say(text)
		panic("purgatorytest: " + text)
	}
}

func (m *misuse) say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.mu.said, text) {
		m.mu.said = append(m.mu.said, text)
	}
}

func (m *misuse) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.said)
}

// method is an operation's method that runs, and where it calls the purgatory.
type method struct {
	name string // TryComplete, OnComplete or OnExpiration
	who  string // it, or the function of an Await, for people
	at   string
}

// most is how many frames of a stack are looked at.
const most = 1 << 10

// methodOnStack returns the innermost of an operation's methods that the purgatory has called on
// this goroutine.
func methodOnStack() (m method, ok bool) {
	var pcs [most]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var user, inner runtime.Frame // the last frame outside the library, and the last of all
	called := false               // the frames of the hook, which come first, are over
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		library := inLibrary(f.Function)
		if name, is := methodName(inner.Function); is && library {
			return method{name: name, who: short(user.Function, name), at: m.at}, m.at != ""
		}
		if called = called || library; called && !library {
			if user = f; m.at == "" {
				m.at = fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
			}
		}
		inner = f
	}
	return m, false
}

// methodName returns the name of an operation's method, if function is one.
func methodName(function string) (name string, ok bool) {
	name = strings.TrimSuffix(function[strings.LastIndex(function, ".")+1:], "-fm") // of a method value
	return name, name == "TryComplete" || name == "OnComplete" || name == "OnExpiration"
}

// module is the path of the library, with a slash at its end.
const module = "github.com/delayedop/purgatory/"

// inLibrary reports whether function belongs to the packages that run operations.
func inLibrary(function string) bool {
	return strings.HasPrefix(function, module+"purgatory.") || strings.HasPrefix(function, module+"internal/")
}

// short returns the name of a method, or of the function of an Await, without the path of its package.
func short(function, name string) string {
	if is, ok := methodName(function); ok && is == name {
		return path.Base(strings.TrimSuffix(function, "-fm"))
	}
	return "the function of an Await, " + path.Base(function) + ","
}

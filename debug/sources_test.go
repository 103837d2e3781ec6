package debug

import (
	"encoding/json"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

func named(t *testing.T, name string) fetches {
	t.Helper()
	clock, err := timer.NewManualTimer()
	require.NoError(t, err)
	p, err := purgatory.New[string](name, purgatory.WithTimer(clock))
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// sicken has operations of a purgatory end only by timeout.
func sicken(t *testing.T, p fetches) {
	t.Helper()
	for range 4 {
		submit(t, p, time.Second, "quiet")
	}
	p.AdvanceClock(2 * time.Second)
}

func names(v View) (all []string) {
	for i := range v.Purgatories {
		all = append(all, v.Purgatories[i].Name)
	}
	return all
}

func TestTroubleComesFirst(t *testing.T) {
	sick := named(t, "broker 2, produces")
	sicken(t, sick)
	page := pageOf(named(t, "broker 0, produces"), named(t, "broker 1, produces"), sick, named(t, "broker 2; produces"))
	v := page.view(nil)
	t.Cleanup(page.Close)
	assert.Equal(t, []string{"broker 2, produces", "broker 0, produces", "broker 1, produces", "broker 2; produces"}, names(v))
	assert.Equal(t, "p-broker-2--produces", v.Purgatories[0].ID)
	assert.Equal(t, "p-broker-2--produces.2", v.Purgatories[3].ID, "of the second one with such a name, trouble or not")
	text := get(t, page, "/").Body.String()
	assert.True(t, strings.HasPrefix(text, "4 purgatories at "), text)
	lines := strings.Split(text, "\n")
	assert.Equal(t, []string{`trouble  "broker 2, produces", 0 pending`, `     ok  "broker 0, produces", 0 pending`}, lines[1:3])
}

func TestANameChoosesWhatIsShown(t *testing.T) {
	page := pageOf(named(t, "a b"), named(t, "c"), named(t, "d"), named(t, "c"))
	var v View
	require.NoError(t, json.Unmarshal(get(t, page, "/?format=json&name=c&name=a+b").Body.Bytes(), &v))
	assert.Equal(t, []string{"a b", "c", "c"}, names(v))
	assert.Equal(t, []string{"p-a-b", "p-c", "p-c.2"}, []string{v.Purgatories[0].ID, v.Purgatories[1].ID, v.Purgatories[2].ID})
	assert.True(t, strings.HasPrefix(get(t, page, "/?name=d").Body.String(), "1 purgatory at "))
	assert.Regexp(t, `^0 purgatories at \S+\n$`, get(t, page, "/?name=e").Body.String())
	assert.NotContains(t, get(t, page, "/?format=html&name=d").Body.String(), "a b")
}

// TestRemoveKeepsNothing: the page does not keep alive what it has been told to forget, the last one neither.
func TestRemoveKeepsNothing(t *testing.T) {
	page := pageOf(newFetches(t))
	t.Cleanup(page.Close)
	var forgotten []weak.Pointer[purgatory.Purgatory[string]]
	func() {
		for range 3 {
			clock, err := timer.NewManualTimer()
			require.NoError(t, err)
			p, err := purgatory.New[string]("short", purgatory.WithTimer(clock))
			require.NoError(t, err)
			require.NoError(t, page.Add(p))
			page.view(nil)
			p.Close()
			page.Remove(p)
			forgotten = append(forgotten, weak.Make(p))
		}
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		for _, p := range forgotten {
			if p.Value() != nil {
				return false
			}
		}
		return true
	}, 30*time.Second, 10*time.Millisecond)
	assert.Len(t, page.view(nil).Purgatories, 1)
}

// TestThePageNeedsNoTemplates: they would add 3.6 MB to a program, for five strings.
func TestThePageNeedsNoTemplates(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	out, err := list.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "net/http")
	assert.NotContains(t, string(out), "/template")
}

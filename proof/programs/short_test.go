//go:build !interleave

package programs

import (
	"os/exec"
	"strings"
	"testing"
)

// What plain tests cannot see is seen by whoever runs them: a short round of the explorations, each with a fixed seed, in
// a build of its own. `make interleave` and `make explore` run longer ones. The two minutes are the limit of a machine that hangs.
func TestAShortRoundOfTheExplorations(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the library for the explorer")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	for name, args := range map[string]string{
		"scenarios of the parts": "-run EveryInterleaving ../../timer ../../watchers ../../internal/machine ../../internal/workers ../../signals",
		"scenarios":              "-run Pairs|Others|Beside|Await|Reads|Turn ../interleave -args -pairs 1 -triples 1",
		"programs":               "-skip TestRuns . -args -for 2s -seed 1 -shrink 10s",
	} {
		t.Run(name, func(t *testing.T) {
			all := append(strings.Fields("test -tags interleave -vet off -count 1 -timeout 2m"), strings.Fields(args)...)
			if out, err := exec.CommandContext(t.Context(), "go", all...).CombinedOutput(); err != nil {
				t.Errorf("go %s: %v\n%s", strings.Join(all, " "), err, out)
			}
		})
	}
}

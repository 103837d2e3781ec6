package linearizability

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/delayedop/purgatory/operation"
)

// A model that lets everything pass proves nothing: these histories, one call after the
// other unless it says otherwise, must not.
func TestTheModelFindsWhatIsWrong(t *testing.T) {
	yes, no := answer{yes: true}, answer{}
	outcome := func(o operation.Outcome) answer { return answer{outcome: o} }
	type step struct {
		verb   verb
		answer answer
	}
	for name, history := range map[string][]step{
		"a met condition that waits": {{set, no}, {register, no}},
		"a lost wake-up": {
			{register, no}, {set, no}, {check, no}, {rest, outcome(operation.Pending)},
		},
		"two ends":                {{register, no}, {force, yes}, {cancel, yes}},
		"an end that was refused": {{register, no}, {force, no}, {rest, outcome(operation.Pending)}},
		"the wrong end":           {{register, no}, {force, yes}, {rest, outcome(operation.Cancelled)}},
		"an end that is undone":   {{register, no}, {force, yes}, {look, outcome(operation.Pending)}},
		"a check that finds what is not met": {
			{register, no}, {check, yes},
		},
		"an expiry before its time": {{register, no}, {rest, outcome(operation.Expired)}},
		"an expiry although it was extended": {
			{register, no}, {extend, answer{yes: true, from: 1, to: 1}}, {expire, no}, {rest, outcome(operation.Expired)},
		},
		"an expiry that is lost": {
			{register, no}, {expire, no}, {expire, no}, {rest, outcome(operation.Pending)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var recorded []porcupine.Operation
			for i, s := range history {
				recorded = append(recorded, porcupine.Operation{
					Input: call{0, s.verb}, Output: s.answer, Call: int64(10 * i), Return: int64(10*i + 5),
				})
			}
			if porcupine.CheckOperations(model(), recorded) {
				t.Error("the model lets it pass")
			}
		})
	}
}

func TestTheModelLetsPassWhatIsRight(t *testing.T) {
	yes, no := answer{yes: true}, answer{}
	at := func(from, to int64, v verb, a answer) porcupine.Operation {
		return porcupine.Operation{Input: call{0, v}, Output: a, Call: from, Return: to}
	}
	recorded := []porcupine.Operation{
		at(0, 1, register, no),
		at(2, 9, check, yes), // tries, and meanwhile
		at(3, 4, force, no),  // leaves a wish
		at(5, 6, cancel, no), // comes too late for one
		at(10, 11, rest, answer{outcome: operation.Forced}),
	}
	if !porcupine.CheckOperations(model(), recorded) {
		t.Error("the model rejects a wish that is carried out")
	}
}

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is what a key has, in the model. Revision 0 stands for one that nobody was told, or, with no value, for none.
type register struct {
	value    string
	revision uint64
}

// model is a register for each key: a get returns what the last put has written, with its revision, and revisions grow.
var model = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range all {
			key := op.Input.(input).key
			byKey[key] = append(byKey[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(register), in.(input), out.(output)
		switch {
		case i.put && o.unknown:
			return true, register{i.value, 0}
		case i.put:
			return o.revision > s.revision, register{i.value, o.revision}
		default:
			same := o.value == s.value && (s.revision == 0 || s.revision == o.revision)
			return same, register{o.value, o.revision}
		}
	},
	DescribeOperation: func(in, out any) string {
		i, o := in.(input), out.(output)
		switch {
		case i.put && o.unknown:
			return fmt.Sprintf("put %s: unknown", i.value)
		case i.put:
			return fmt.Sprintf("put %s: %d", i.value, o.revision)
		default:
			return fmt.Sprintf("get: %s, %d", o.value, o.revision)
		}
	},
	DescribeState: func(state any) string {
		return fmt.Sprintf("%s, %d", state.(register).value, state.(register).revision)
	},
}

// decideTimeout bounds the search for an order.
const decideTimeout = 2 * time.Minute

// decide reports whether the history is linearizable, and draws it into a file at path if it is not.
func decide(all []porcupine.Operation, path string) (porcupine.CheckResult, error) {
	result, info := porcupine.CheckOperationsVerbose(model, all, decideTimeout)
	if result != porcupine.Illegal || path == "" {
		return result, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return result, err
	}
	defer file.Close()
	return result, porcupine.Visualize(model, info, file)
}

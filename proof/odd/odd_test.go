package odd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is handed over and has no row is seen, and so is a row about what is gone.
func TestAMissingRowIsSeen(t *testing.T) {
	things, err := handed("../../purgatory")
	require.NoError(t, err)
	assert.Contains(t, things, thing{"Operation.TryComplete", true, false})
	assert.Contains(t, things, thing{"WithPanicHandler(h)", true, true})
	assert.Contains(t, things, thing{"Purgatory.CheckAndComplete(keys)", false, true})
	assert.Contains(t, things, thing{"Purgatory.Keys: body", true, false})
	assert.Contains(t, things, thing{"K", true, false})
	few := []thing{{"F(f)", true, false}, {"F(keys)", false, true}, {"G(g)", true, false}}
	wrong := compare(few, []Row[World]{
		{Of: []string{"F(f)"}, Want: map[User]string{Panics: "", Exits: "", CallsBack: "", Stays: ""}},
		{Of: []string{"F(keys)"}, Want: map[User]string{Appends: "", Changes: ""}},
		{Of: []string{"F(keys)"}, Want: map[User]string{Keeps: ""}},
		{Of: []string{"G(g)"}, Not: "it is never called"},
		{Of: []string{"H"}, Not: "it is gone"},
	})
	assert.Equal(t, []string{
		"a row is about H, which nobody hands over",
		"no row says how it goes on if the user of F(f) closes",
	}, wrong)
}

package operation

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// request is a user's operation.
type request struct {
	DelayedOperation
	_ *request // a pointer of the user's own
}

func (*request) TryComplete() bool { return false }
func (*request) OnComplete()       {}
func (*request) OnExpiration()     {}

func TestOutcomesHaveNames(t *testing.T) {
	names := map[Outcome]string{
		Pending: "pending", Satisfied: "satisfied", Forced: "forced", Expired: "expired", Cancelled: "cancelled", Closed: "closed",
	}
	require.Len(t, names, NumOutcomes)
	for o, name := range names {
		assert.Equal(t, name, o.String())
	}
	assert.Equal(t, "Outcome(6)", Outcome(NumOutcomes).String(), "the first value that is no outcome")
	assert.Equal(t, "Outcome(255)", Outcome(255).String())
}

// An operation with one pointer of the user's own fills the size class of 112 bytes.
func TestSizeOfAnOperation(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("sizes are those of 64 bits")
	}
	assert.EqualValues(t, 104, unsafe.Sizeof(DelayedOperation{}))
	assert.EqualValues(t, 112, unsafe.Sizeof(request{}))
}

// Embedding promotes every exported method of DelayedOperation to the user's type.
func TestEmbeddingPromotesOutcomeAndCauseOnly(t *testing.T) {
	var names []string
	typ := reflect.TypeFor[*DelayedOperation]()
	for i := range typ.NumMethod() {
		names = append(names, typ.Method(i).Name)
	}
	assert.Equal(t, []string{"Cause", "Outcome"}, names)
	assert.Zero(t, reflect.TypeFor[DelayedOperation]().NumMethod())
	for i := range typ.Elem().NumField() {
		f := typ.Elem().Field(i)
		assert.False(t, f.IsExported(), f.Name)
	}
}

// A type that has the three methods and does not embed DelayedOperation is no Operation.
func TestOnlyATypeThatEmbedsIsAnOperation(t *testing.T) {
	assert.Implements(t, (*Operation)(nil), &request{})
	type three interface {
		TryComplete() bool
		OnComplete()
		OnExpiration()
	}
	assert.False(t, reflect.TypeFor[three]().Implements(reflect.TypeFor[Operation]()))
}

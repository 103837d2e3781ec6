package nats_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
)

func TestAKeyIsOneTokenWhateverItSays(t *testing.T) {
	for key, want := range map[string]string{
		"plain-Key_7/a": "plain-Key_7/a",
		"a.b":           "a=2Eb",
		"*":             "=2A",
		">":             "=3E",
		"a b\r\nPUB x":  "a=20b=0D=0APUB=20x",
		"=2A":           "=3D2A",
		"\xff\x00é":     "=FF=00=C3=A9",
	} {
		token, err := natssignals.Encode(key)
		require.NoError(t, err)
		assert.Equal(t, want, token)
		back, err := natssignals.Decode(token)
		require.NoError(t, err)
		assert.Equal(t, key, back)
	}
	escapes := strings.Repeat(".", natssignals.MaxKey/3) // of three bytes each
	for _, key := range []string{strings.Repeat("a", natssignals.MaxKey), escapes, escapes + strings.Repeat("a", natssignals.MaxKey%3)} {
		token, err := natssignals.Encode(key)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(token), natssignals.MaxKey)
		back, err := natssignals.Decode(token)
		require.NoError(t, err)
		assert.Equal(t, key, back)
	}
	for _, key := range []string{"", strings.Repeat("a", natssignals.MaxKey+1), escapes + ".", escapes + strings.Repeat("a", natssignals.MaxKey%3+1)} {
		_, err := natssignals.Encode(key)
		assert.ErrorIs(t, err, natssignals.ErrKey)
	}
	for _, token := range []string{"=", "a=2", "=zz", "=2a", "x=41y", "abc==", "a=2Eb=2Fc"} {
		_, err := natssignals.Decode(token)
		assert.ErrorIs(t, err, natssignals.ErrKey, token)
	}
	natural, err := natssignals.Decode("orders.17")
	require.NoError(t, err)
	assert.Equal(t, "orders.17", natural)
	for _, prefix := range []string{"", ".", "a.", ".a", "a..b", "a.*", ">", "a b", "a\n", strings.Repeat("a", 2000)} {
		_, err := natssignals.Subjects(nil, prefix)
		assert.ErrorIs(t, err, natssignals.ErrKey, prefix)
		assert.ErrorIs(t, natssignals.Hint(nil, prefix, "key", 1), natssignals.ErrKey, prefix)
	}
	assert.ErrorIs(t, natssignals.Hint(nil, "a", "", 1), natssignals.ErrKey)
}

func FuzzEncodedKeysComeBackAndStayOneToken(f *testing.F) {
	f.Add("a.b > *")
	f.Fuzz(func(t *testing.T, key string) {
		token, err := natssignals.Encode(key)
		if err != nil {
			t.Skip()
		}
		if strings.ContainsAny(token, ".*> \t\r\n") {
			t.Errorf("%q is %q", key, token)
		}
		if back, err := natssignals.Decode(token); err != nil || back != key {
			t.Errorf("%q comes back as %q, %v", key, back, err)
		}
	})
}

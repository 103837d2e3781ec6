package built

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagsSayWhetherThereIsARaceDetector(t *testing.T) {
	require.Equal(t, race, slices.Contains(Flags(), "-race=true"))
}

package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func promtool(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: there is no promtool here, so nobody tests the alert rules (apt-get install prometheus)")
	}
	out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
	return string(out), err
}

func TestAlertsFireOnSickDaysOnly(t *testing.T) {
	out, err := promtool(t, "test", "rules", "alerts_test.yaml")
	require.NoError(t, err, out)
}

// TestEachAlertFiresInSomeTest: a rule that no test has seen firing may be one that never does.
func TestEachAlertFiresInSomeTest(t *testing.T) {
	rules, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	days, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		assert.Contains(t, string(days), `ALERTS{alertname="`+alert[1]+`",alertstate="firing"`)
	}
}

// TestTheDashboardAsksWhatPrometheusUnderstands makes a rule of each question.
func TestTheDashboardAsksWhatPrometheusUnderstands(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	content, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &dashboard))
	rules, n := "groups:\n- name: dashboard\n  rules:\n", 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$purgatory", ".*", "$instance", ".*").Replace(target.Expr)
			rules += fmt.Sprintf("  - {record: 'q%d', expr: '%s'}\n", n, expr)
			n++
		}
	}
	require.Positive(t, n)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(rules), 0o600))
	out, err := promtool(t, "check", "rules", file)
	require.NoError(t, err, out)
	assert.Contains(t, out, fmt.Sprintf("%d rules found", n))
}

package terraform_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rules is a file of alerting rules, as Prometheus reads it.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// The module's alerts are the rules of docs/observability, whose tests hold them against what a
// cluster measures. The module has a copy, so that it can be used without the rest of the
// repository.
func TestAlertsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	want := read(t, "../docs/observability/alerts.yaml")
	if *update {
		if err := os.WriteFile("alerts.yaml", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "alerts.yaml") != want {
		t.Error("alerts.yaml is not that of docs/observability: run the test with -update")
	}
}

// alerts.tf can make a policy of every rule: it knows the severities, reads the durations, and
// finds what to tell whoever is called. And there is a rule for each thing that an operator cannot
// do without.
func TestAlertsFitPolicies(t *testing.T) {
	t.Parallel()
	var file rules
	if err := yaml.UnmarshalStrict([]byte(read(t, "alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	severities := read(t, "alerts.tf")
	var all strings.Builder
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Alert == "" {
				t.Errorf("alert %q is there twice, or has no name", r.Alert)
			}
			seen[r.Alert] = true
			all.WriteString(r.Expr)
			if s := r.Labels["severity"]; s == "" || !strings.Contains(severities, s+" = \"") {
				t.Errorf("%s: alerts.tf does not know the severity %q", r.Alert, s)
			}
			if strings.Contains(r.Expr, "vector(0)") || strings.Contains(r.Expr, "absent(") {
				if !regexp.MustCompile(`await_servers = \[[^]]*"` + r.Alert + `"`).MatchString(severities) {
					t.Errorf("%s fires where nothing runs, and alerts.tf makes it before there are servers", r.Alert)
				}
			}
			if r.For != "" && !regexp.MustCompile(`^[0-9]+[smh]$`).MatchString(r.For) {
				t.Errorf("%s: alerts.tf cannot read the duration %q", r.Alert, r.For)
			}
			if r.Annotations["summary"] == "" || !strings.HasPrefix(r.Annotations["runbook_url"], "https://") {
				t.Errorf("%s does not say what to do", r.Alert)
			}
		}
	}
	for _, metric := range []string{
		"percolator_tso_leading", "percolator_tso_lease_left_seconds", "percolator_tso_window_left_seconds", "percolator_lock_expired_age_seconds",
		"percolator_notifications_oldest_age_seconds", "percolator_transactions_total", "percolator_collection_lag_seconds", "percolator_rows_large_total",
	} {
		if !strings.Contains(all.String(), metric) {
			t.Errorf("no alert is about %s", metric)
		}
	}
}

package observability

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"sigs.k8s.io/yaml"
)

func keysOf(set attribute.Set) (out []string) {
	for _, a := range set.ToSlice() {
		out = append(out, string(a.Key))
	}
	return out
}

// query is a PromQL expression and where it stands.
type query struct{ where, expr string }

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) (out []rule) {
	t.Helper()
	b, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f ruleFile
	if err := yaml.UnmarshalStrict(b, &f); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func readPanels(t *testing.T) []panel {
	t.Helper()
	b, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

var (
	metricName = regexp.MustCompile(`\b(?:percolator|db_client|go|process)_[a-z0-9_]+\b`)
	labelUse   = regexp.MustCompile(`(?:\bby \(([^)]*)\))|(\w+)=~?"|(\w+)!=`)
	braces     = regexp.MustCompile(`\{[^}]*\}|\bby \([^)]*\)`)
	series     = regexp.MustCompile(`(?m)^([a-z0-9_]+)(?:\{(.*)\})? `)
	label      = regexp.MustCompile(`(\w+)="`)
	legend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// Every metric and label that a panel or a rule asks for is there.
func TestQueriesFindSomething(t *testing.T) {
	m := measure(t)
	names, labels := map[string]bool{}, map[string]bool{"instance": true, "le": true}
	for _, s := range series.FindAllStringSubmatch(m.page, -1) {
		names[s[1]] = true
		for _, l := range label.FindAllStringSubmatch(s[2], -1) {
			labels[l[1]] = true
		}
	}
	var queries []query
	for _, p := range readPanels(t) {
		for _, target := range p.Targets {
			queries = append(queries, query{"panel " + p.Title, target.Expr})
			for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				if l[1] != "instance" && !strings.Contains(target.Expr, l[1]) {
					t.Errorf("panel %s: the legend has %s, which the query drops", p.Title, l[1])
				}
			}
		}
	}
	for _, r := range readRules(t) {
		queries = append(queries, query{r.Alert, r.Expr})
	}
	for _, q := range queries {
		found := metricName.FindAllString(braces.ReplaceAllString(q.expr, ""), -1)
		if len(found) == 0 {
			t.Errorf("%s asks for nothing: %s", q.where, q.expr)
		}
		for _, name := range found {
			if !names[name] {
				t.Errorf("%s asks for %s, which does not exist", q.where, name)
			}
		}
		for _, use := range labelUse.FindAllStringSubmatch(q.expr, -1) {
			for name := range strings.SplitSeq(use[1]+use[2]+use[3], ",") {
				if name = strings.TrimSpace(name); !labels[name] {
					t.Errorf("%s asks for the label %q, which does not exist", q.where, name)
				}
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(q.expr, pair[:1]) != strings.Count(q.expr, pair[1:]) {
				t.Errorf("%s: %s is not balanced in %s", q.where, pair, q.expr)
			}
		}
	}
	shown := ""
	for _, q := range queries {
		shown += q.expr + "\n"
	}
	for name := range m.instruments { // an instrument that nobody looks at is one too many
		if !strings.Contains(shown, strings.ReplaceAll(name, ".", "_")) {
			t.Errorf("neither a panel nor a rule asks for %s", name)
		}
	}
}

var kebab = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// A rule says how bad it is, what it means, and where to read on.
func TestRulesSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range readRules(t) {
		if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Percolator") {
			t.Errorf("the name %s", r.Alert)
		}
		seen[r.Alert] = true
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" {
			t.Errorf("%s has no summary", r.Alert)
		}
		if d, err := time.ParseDuration(r.For); r.For != "" && (err != nil || d < 10*time.Second) {
			t.Errorf("%s: for %q: %v", r.Alert, r.For, err)
		}
		if r.For == "" && !strings.Contains(r.Expr, "increase(") {
			t.Errorf("%s is raised by one look", r.Alert)
		}
		anchor := "#alert-" + strings.ToLower(kebab.ReplaceAllString(r.Alert, "$1-$2"))
		if url := r.Annotations["runbook_url"]; !strings.HasSuffix(url, "docs/RUNBOOK.md"+anchor) {
			t.Errorf("%s leads to %s, not to %s", r.Alert, url, anchor)
		}
	}
}

func TestPanelsHaveTitlesAndDoNotOverlap(t *testing.T) {
	t.Parallel()
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range readPanels(t) {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %s is a %s with %d queries", p.Title, p.Type, len(p.Targets))
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %s lies on %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

package console

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var notInAnchors = regexp.MustCompile("[^a-z0-9 -]")

// Every link to the runbook leads to one of its sections, and every one that leads to a page to one
// of the console's.
func TestLinksOfChartsAndConcerns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "RUNBOOK.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(string(text), -1)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, []string{"", strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")})
	}
	known := func(anchor string) bool {
		return slices.ContainsFunc(sections, func(s []string) bool { return s[1] == anchor })
	}
	for _, c := range charts {
		if !known(c.Runbook) || !slices.ContainsFunc(tabs, func(tab tab) bool { return tab.Path == c.Page }) {
			t.Errorf("the chart %s leads to %q and %q", c.ID, c.Page, c.Runbook)
		}
	}
	source, err := os.ReadFile("attention.go")
	if err != nil {
		t.Fatal(err)
	}
	anchors := regexp.MustCompile(`page[A-Z]\w+, "([^"]+)"\}`).FindAllStringSubmatch(string(source), -1)
	if len(anchors) < 8 {
		t.Errorf("%d concerns lead to the runbook", len(anchors))
	}
	for _, m := range anchors {
		if !known(m[1]) {
			t.Errorf("a concern leads to %q", m[1])
		}
	}
}

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
	sources, err := filepath.Glob(filepath.Join("..", "..", "internal", "health", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:Runbook: |noSpare = |Runbook = .*)"([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
			found[m[1]] = true
		}
	}
	if len(found) < 9 {
		t.Errorf("findings lead to %v", found)
	}
	for anchor := range found {
		if !known(anchor) {
			t.Errorf("a finding leads to %q", anchor)
		}
	}
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeOrLine = regexp.MustCompile("`([^`]+)`")
	invocation = regexp.MustCompile(`\bpercolator ([a-z][^;|)#]*)`)
	word       = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	flagName   = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestCommandsExist: whatever a page says about the command percolator, in code or in blocks of commands, names a command that exists,
// with flags that it has. The help of all commands is in cmd/percolator/testdata/help.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		each := func(i int, text string) {
			for _, m := range invocation.FindAllStringSubmatch(text, -1) {
				found++
				if wrong := unknown(t, m[1]); wrong != "" {
					t.Errorf("%s:%d: percolator %s: %s", p.path, i+1, strings.TrimSpace(m[1]), wrong)
				}
			}
		}
		p.eachLine(func(i int, line string) {
			for _, m := range codeOrLine.FindAllStringSubmatch(line, -1) {
				each(i, m[1])
			}
		})
		for _, b := range p.blocks {
			for i, line := range p.lines[b.first:b.last] {
				line = strings.TrimPrefix(line, b.indent)
				if command, ok := strings.CutPrefix(line, "$ "); ok || b.language == "sh" {
					each(b.first+i, command)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found %d commands", found)
	}
}

// unknown says what is wrong with the words after "percolator", "" if nothing is.
func unknown(t *testing.T, text string) string {
	t.Helper()
	help, name := "", "percolator"
	for _, w := range strings.Fields(text) {
		if !word.MatchString(w) {
			break
		}
		b, err := os.ReadFile(filepath.Join(root, "cmd/percolator/testdata/help", name+"_"+w+".txt"))
		if err != nil && strings.Contains(help, "Available Commands:") {
			return "no such command as " + w
		}
		if err != nil {
			break
		}
		help, name = string(b), name+"_"+w
	}
	if help == "" {
		return "no such command"
	}
	for _, m := range flagName.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(help, m[1]) {
			return "no flag " + m[1]
		}
	}
	return ""
}

package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeOrLine = regexp.MustCompile("`([^`]+)`")
	invocation = regexp.MustCompile(`\b(percolator|cmd/percolator-bench \.|emulator_test/simulate) ((?:--)?[a-z][^;|)#]*)`)
	word       = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	flagName   = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestCommandsExist: what a page says in code about percolator and percolator-bench names a command
// that exists, with flags that it has. The help of all commands is in testdata/help below their
// programs.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range pages(t) {
		each := func(i int, text string) {
			for _, m := range invocation.FindAllStringSubmatch(text, -1) {
				name := strings.TrimSuffix(path.Base(m[1]), " .")
				if name == "percolator" && m[2][0] == '-' {
					continue // a flag of a command of gcloud's
				}
				found++
				if wrong := unknown(t, name, m[2]); wrong != "" {
					t.Errorf("%s:%d: %s %s: %s", p.path, i+1, name, strings.TrimSpace(m[2]), wrong)
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

// unknown says what is wrong with the words after the name of a program, "" if nothing is.
func unknown(t *testing.T, name, text string) string {
	t.Helper()
	dir := path.Join("cmd", name)
	if name == "simulate" {
		dir = "emulator_test/simulate"
	}
	whole, err := os.ReadFile(filepath.Join(root, dir, "testdata/help", name+".txt"))
	if err != nil {
		return err.Error()
	}
	help := string(whole)
	for _, w := range strings.Fields(text) {
		if !word.MatchString(w) {
			break
		}
		b, err := os.ReadFile(filepath.Join(root, dir, "testdata/help", name+"_"+w+".txt"))
		if err != nil && strings.Contains(help, "Available Commands:") {
			return "no such command as " + w
		}
		if err != nil {
			break
		}
		help, name = string(b), name+"_"+w
	}
	for _, m := range flagName.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(help, m[1]) {
			return "no flag " + m[1]
		}
	}
	return ""
}

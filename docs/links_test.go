package docs_test

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link     = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`^#{1,6} +(.*?)\s*$`)
	named    = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	inText   = regexp.MustCompile("`([^`]*)`")
	toURL    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// TestRelativeLinksLeadSomewhere: every relative link names a file, and its fragment a heading or
// an anchor there.
func TestRelativeLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := map[string]*page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	followed := 0
	for _, p := range all {
		p.eachLine(func(i int, line string) {
			for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				followed++
				if wrong := check(t, all, p.path, m[1]); wrong != "" {
					t.Errorf("%s:%d: %s: %s", p.path, i+1, m[1], wrong)
				}
			}
		})
	}
	if followed < 100 {
		t.Errorf("found %d links", followed)
	}
}

// check says what is wrong with a link on the page from, "" if nothing is.
func check(t *testing.T, all map[string]*page, from, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if u.IsAbs() {
		return "" // another site's affair
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if _, err := os.Stat(filepath.Join(root, to)); err != nil {
			return "there is no such file"
		}
	}
	if u.Fragment == "" || !strings.HasSuffix(to, ".md") {
		return ""
	}
	p := all[to]
	if p == nil {
		p = readPage(t, to)
		all[to] = p
	}
	if !p.anchors()[u.Fragment] {
		return "the page has no such heading or anchor"
	}
	return ""
}

// eachLine calls f for the lines that are not in a fence.
func (p *page) eachLine(f func(i int, line string)) {
	open := false
	for i, line := range p.lines {
		if fence.MatchString(line) {
			open = !open
			continue
		}
		if !open {
			f(i, line)
		}
	}
}

// anchors are the fragments of a page, as GitHub makes them of headings, and those that are given.
func (p *page) anchors() map[string]bool {
	found, times := map[string]bool{}, map[string]int{}
	p.eachLine(func(_ int, line string) {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			found[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		slug := slugOf(m[1])
		if n := times[slug]; n > 0 {
			found[fmt.Sprintf("%s-%d", slug, n)] = true
		} else {
			found[slug] = true
		}
		times[slug]++
	})
	return found
}

func slugOf(heading string) string {
	heading = toURL.ReplaceAllString(inText.ReplaceAllString(heading, "$1"), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestEverythingIsInTheIndex: docs/README.md leads to every page and every picture is shown
// somewhere.
func TestEverythingIsInTheIndex(t *testing.T) {
	t.Parallel()
	index := read(t, "docs/README.md")
	shown := index
	for _, p := range pages(t) {
		shown += strings.Join(p.lines, "\n")
		name, ok := strings.CutPrefix(p.path, "docs/")
		if ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
	pictures, err := filepath.Glob("pictures/*.svg")
	if err != nil || len(pictures) == 0 {
		t.Fatal(pictures, err)
	}
	for _, name := range pictures {
		if !strings.Contains(shown, name+")") {
			t.Errorf("no page shows %s", name)
		}
	}
}

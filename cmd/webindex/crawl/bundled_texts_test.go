package crawl_test

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed testdata/texts/*.txt
var textFiles embed.FS

// entry is one entry of a text file: a line of fields, separated by bars, and the paragraphs under
// it.
type entry struct {
	fields     []string
	paragraphs []string
}

func (e entry) name() string { return e.fields[0] }

// readEntries reads testdata/texts/name.txt, in which empty lines divide the entries and lines that
// start with # are comments. Every entry must have the given number of fields.
func readEntries(name string, fields int) ([]entry, error) {
	text, err := textFiles.ReadFile("testdata/texts/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	var entries []entry
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var e entry
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case e.fields == nil:
				for field := range strings.SplitSeq(line, "|") {
					e.fields = append(e.fields, strings.TrimSpace(field))
				}
			default:
				e.paragraphs = append(e.paragraphs, line)
			}
		}
		if e.fields == nil {
			continue
		}
		if len(e.fields) != fields || len(e.paragraphs) == 0 {
			return nil, fmt.Errorf("testdata/texts/%s.txt: %q has %d fields and %d paragraphs", name, e.name(), len(e.fields), len(e.paragraphs))
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// slug writes a name as part of a URL.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			b.WriteRune(r)
		case r == ' ' || r == '-':
			b.WriteByte('-')
		}
	}
	return b.String()
}

package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/text"
)

//go:embed assets templates
var files embed.FS

// views are the templates and the files that pages load.
type views struct {
	pages   map[string]*template.Template
	version string // of all files' contents: part of their paths, so browsers cache them
}

// newViews parses the templates: "layout" around "main", which each page defines. They are part of
// the program, so nothing but an edit of them can make this panic.
func newViews() *views {
	v := &views{pages: map[string]*template.Template{}, version: hashFiles()}
	shared := template.Must(template.New("").Funcs(functions(v.version)).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/list.html"))
	for _, t := range append([]tab{{Name: "problem"}}, tabs...) {
		v.pages[t.Name] = template.Must(template.Must(shared.Clone()).ParseFS(files, "templates/"+t.Name+".html"))
	}
	return v
}

func functions(version string) template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return "assets/" + version + "/" + name },
		"shown":    text.Shown,
		"duration": formatDuration,
		"count":    grouped,
		"count64":  func(n int) string { return grouped(int64(n)) },
		"runbook":  runbookLink,
		"bytes":    formatBytes,
		"time":     formatTime,
		"value":    formatValue,
		"line":     firstLine,
		"plural":   plural,
		"join":     strings.Join,
		"spans":    text.Spans,
		"rowLink":  rowLink,
		"browse":   browseLink,
		"ackOf":    ackOf,
		"used":     used,
		"refused":  refused,
		"date":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	}
}

func (v *views) template(p *page) *template.Template {
	if p.Problem != nil && p.Row == nil || v.pages[p.Name] == nil {
		return v.pages["problem"]
	}
	return v.pages[p.Name]
}

// render writes a whole page.
func (v *views) render(w io.Writer, p *page) error {
	return v.template(p).ExecuteTemplate(w, "layout", p)
}

// renderMain writes the part of a page that is replaced while it is looked at.
func (v *views) renderMain(p *page) (string, error) {
	var b bytes.Buffer
	err := v.template(p).ExecuteTemplate(&b, "content", p)
	return b.String(), err
}

// contentTypes are not left to the tables of the machine.
var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// serveAsset serves a file that never changes under its path.
func (v *views) serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := files.ReadFile("assets/" + name)
	if err != nil || r.PathValue("version") != v.version || contentTypes[path.Ext(name)] == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func hashFiles() string {
	sum := sha256.New()
	err := fs.WalkDir(files, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content) // a hash takes everything
		return err
	})
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

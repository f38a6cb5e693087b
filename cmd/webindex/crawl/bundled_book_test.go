package crawl_test

import (
	"errors"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"
)

// book is what all three hosts know: the entries, and at which URL each is described.
type book struct {
	lights, keepers, harbours, recipes, glossary, essays []entry
	regions                                              []string

	urls    map[string]string // by name
	missing []string          // names that were linked to and are nowhere
	links   int               // written so far, to vary their form
}

func newBook() (*book, error) {
	b := &book{urls: make(map[string]string)}
	for _, file := range []struct {
		name    string
		fields  int
		entries *[]entry
	}{
		{"lights", 7, &b.lights}, {"keepers", 3, &b.keepers}, {"harbours", 5, &b.harbours}, {"recipes", 5, &b.recipes},
		{"glossary", 2, &b.glossary}, {"essays", 3, &b.essays},
	} {
		entries, err := readEntries(file.name, file.fields)
		if err != nil {
			return nil, err
		}
		*file.entries = entries
	}
	for _, e := range b.lights {
		if region := e.fields[1]; !slices.Contains(b.regions, region) {
			b.regions = append(b.regions, region)
		}
	}
	return b, b.index()
}

// index gives every entry its URL.
func (b *book) index() error {
	for _, e := range b.lights {
		b.urls[e.name()] = "http://" + lightsHost + "/lights/" + slug(e.name()) + ".html"
	}
	for _, e := range b.keepers {
		b.urls[e.name()] = "http://" + lightsHost + "/keepers/" + slug(e.name()) + ".html"
	}
	for _, r := range b.regions {
		b.urls[r] = "http://" + lightsHost + "/region/" + slug(r) + "/"
	}
	for _, e := range b.harbours {
		b.urls[e.name()] = "http://" + harboursHost + "/" + slug(e.name())
	}
	for _, e := range b.recipes {
		b.urls[e.name()] = "http://" + galleyHost + "/recipe/" + slug(e.name())
	}
	for _, e := range b.glossary {
		b.urls[e.name()] = "http://" + hostOf(e.fields[1]) + "/glossary/" + slug(e.name()) + ".html"
	}
	for _, e := range b.essays {
		b.urls[e.name()] = "http://" + hostOf(e.fields[1]) + "/essays/" + slug(e.name()) + ".html"
	}
	// Of these the copy is the better known one, see addCopies.
	b.urls["slack water"] = "http://" + harboursHost + "/words/slack-water"
	b.urls["sourdough"] = "http://" + galleyHost + "/glossary/sour.html"
	want := len(b.lights) + len(b.keepers) + len(b.regions) + len(b.harbours) + len(b.recipes) + len(b.glossary) + len(b.essays)
	if len(b.urls) != want {
		return fmt.Errorf("%d names for %d entries: a name is used twice", len(b.urls), want)
	}
	return nil
}

func hostOf(short string) string { return short + ".example" }

// unresolved says which names were linked to that do not exist.
func (b *book) unresolved() error {
	if len(b.missing) == 0 {
		return nil
	}
	return errors.New("links to unknown names: " + strings.Join(b.missing, ", "))
}

var textLink = regexp.MustCompile(`\[\[([^\]|]+)(?:\|([^\]]+))?\]\]`)

// paragraphs writes the text of e as it stands on the page at url.
func (b *book) paragraphs(url string, e entry) string {
	var out strings.Builder
	for _, p := range e.paragraphs {
		p = html.EscapeString(p)
		p = textLink.ReplaceAllStringFunc(p, func(link string) string {
			m := textLink.FindStringSubmatch(link)
			name, text := html.UnescapeString(m[1]), m[2]
			if text == "" {
				text = m[1]
			}
			return b.anchor(url, name, text)
		})
		out.WriteString("<p>" + p + "\n")
	}
	return out.String()
}

// link writes a link from the page at url to the entry called name, with the name as its text.
func (b *book) link(url, name string) string {
	return b.anchor(url, name, html.EscapeString(name))
}

func (b *book) anchor(url, name, text string) string {
	target, ok := b.urls[name]
	if !ok {
		b.missing = append(b.missing, name)
	}
	b.links++
	return fmt.Sprintf("<a href=%q>%s</a>", reference(url, target, b.links), text)
}

// reference writes target as one of the references that the page at url may use for it; n chooses
// one.
func reference(url, target string, n int) string {
	host, dir := splitURL(url)
	targetHost, targetPath := splitURL(target)
	if host != targetHost {
		switch n % 5 {
		case 0:
			return strings.Replace(target, targetHost, strings.ToUpper(targetHost), 1)
		case 1:
			return strings.TrimPrefix(target, "http:")
		}
		return target
	}
	switch n % 4 {
	case 0:
		return target
	case 1:
		return targetPath
	case 2:
		return targetPath + "#top"
	}
	return relative(path.Dir(dir+"x"), targetPath)
}

// splitURL returns host and path of an http URL.
func splitURL(url string) (host, path string) {
	host, path, _ = strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return host, "/" + path
}

// relative writes the path target as seen from the directory dir.
func relative(dir, target string) string {
	if dir == "/" {
		return "." + target
	}
	from := strings.Split(strings.Trim(dir, "/"), "/")
	to := strings.Split(strings.TrimPrefix(target, "/"), "/")
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	return strings.Repeat("../", len(from)) + strings.Join(to, "/")
}

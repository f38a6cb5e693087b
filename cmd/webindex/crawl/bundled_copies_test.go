package crawl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// addCopies adds pages whose content is that of another page: the same file under two names,
// versions to print that are no different, a session in the query, and a mirror. Wherever links
// lead to the copy, the copy may be the better known one.
func (s *site) addCopies() error {
	copies := [][2]string{ // copy, original
		{"http://lights.example/index.html", "http://lights.example/"},
		{"http://harbours.example/kelderby?session=8f3a", "http://harbours.example/kelderby"},
		{"http://harbours.example/kelderby?session=c001", "http://harbours.example/kelderby"},
		{"http://galley.example/recipe/watch-bread?print", "http://galley.example/recipe/watch-bread"},
		{"http://galley.example/recipe/westermost-soda-bread?print", "http://galley.example/recipe/westermost-soda-bread"},
		{"http://harbours.example/words/slack-water", "http://harbours.example/glossary/slack-water.html"},
		{"http://galley.example/glossary/sour.html", "http://galley.example/glossary/sourdough.html"},
		{"http://mirror.example/", "http://lights.example/"},
	}
	for i, e := range s.book.lights {
		file := slug(e.name()) + ".html"
		if i%6 == 0 {
			copies = append(copies, [2]string{"http://lights.example/print/" + file, "http://lights.example/lights/" + file})
		}
		if i < 7 {
			copies = append(copies, [2]string{"http://" + mirrorHost + "/lights/" + file, "http://lights.example/lights/" + file})
		}
	}
	for _, pair := range copies {
		original := s.find(pair[1])
		if original == nil {
			return errors.New("no original of a copy: " + pair[1])
		}
		s.addResponse(pair[0], original.Status, original.Header.Clone(), slices.Clone(original.Body))
	}
	// In another charset it is still the same text.
	s.addHTML("http://"+lightsHost+"/fr/phare-de-varn-utf8.html", frenchLight)
	s.addHTML("http://"+mirrorHost+"/list.html", mirrorList(copies))
	return nil
}

// mirrorList links to all copies.
func mirrorList(copies [][2]string) string {
	var out strings.Builder
	out.WriteString("<html><title>What is mirrored here, and other copies</title><body><ol>\n")
	for _, pair := range copies {
		_, path := splitURL(pair[0])
		fmt.Fprintf(&out, "<li><a href=\"%s\">copy of %s</a>\n", pair[0], strings.Trim(path, "/"))
	}
	return out.String() + "</ol></body></html>\n"
}

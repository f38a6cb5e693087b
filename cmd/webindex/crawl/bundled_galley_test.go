package crawl_test

import (
	"fmt"
	"html"
	"strings"
)

// The galley: /, /recipe/, /with/ (an ingredient), /glossary/ and /essays/.

func galleyPage(title, content string) string {
	return `<!doctype html><meta charset=utf-8><title>` + html.EscapeString(title) + `</title>
<style>body { max-width: 40em } a:hover { color: #a40 }</style>
<nav><a href="/">Galley</a> <a href="/glossary/">Glossary</a></nav>
<main><h1>` + html.EscapeString(title) + `</h1>
` + content + `
</main>
<footer><a href="http://lights.example">Lights</a> <a href="http://harbours.example/">Harbours</a></footer>
`
}

// ingredients are those that have a page of their own.
var ingredients = []string{
	"barley", "butter", "buttermilk", "currants", "haddock", "honey", "leaven", "oatmeal", "potatoes", "rye", "treacle", "yeast",
}

func (s *site) addGalley() {
	b := s.book
	home := "http://" + galleyHost + "/"
	var out strings.Builder
	out.WriteString("<p>What was baked under the lamps, collected from logs, cellars and people who remember.\n<ul>")
	for _, r := range b.recipes {
		out.WriteString("<li>" + b.link(home, r.name()) + ", a " + r.fields[1] + " from " + b.link(home, r.fields[2]) + "\n")
	}
	out.WriteString("</ul>\n<p>By ingredient: ")
	for _, ingredient := range ingredients {
		fmt.Fprintf(&out, "<a href=\"with/%s.html\">%s</a> ", ingredient, ingredient)
	}
	s.addHTML(home, galleyPage("The galley", out.String()))
	for _, r := range b.recipes {
		url := b.urls[r.name()]
		s.addHTML(url, galleyPage(r.name(), s.recipeContent(url, r)))
	}
	for _, ingredient := range ingredients {
		url := "http://" + galleyHost + "/with/" + ingredient + ".html"
		s.addHTML(url, galleyPage("With "+ingredient, s.ingredientContent(url, ingredient)))
	}
	s.addGlossary("galley", galleyPage)
	s.addEssays("galley", galleyPage)
}

func (s *site) recipeContent(url string, r entry) string {
	b := s.book
	var out strings.Builder
	fmt.Fprintf(&out, "<p>%s from %s, %s minutes in the oven or on the fire.\n<ul>\n", r.fields[1], b.link(url, r.fields[2]), r.fields[3])
	for part := range strings.SplitSeq(r.fields[4], ";") {
		part = html.EscapeString(strings.TrimSpace(part))
		for _, ingredient := range ingredients {
			if strings.Contains(part, ingredient) {
				part += fmt.Sprintf(" (<a href=\"../with/%s.html\">more with %s</a>)", ingredient, ingredient)
				break
			}
		}
		out.WriteString("<li>" + part + "\n")
	}
	return out.String() + "</ul>\n" + b.paragraphs(url, r)
}

func (s *site) ingredientContent(url, ingredient string) string {
	var out strings.Builder
	n := 0
	for _, r := range s.book.recipes {
		if strings.Contains(r.fields[4], ingredient) {
			n++
			out.WriteString("<li>" + s.book.link(url, r.name()) + "\n")
		}
	}
	return fmt.Sprintf("<p>%d recipes of the coast call for %s.\n<ol>\n%s</ol>\n", n, ingredient, out.String())
}

package page

import (
	"net/url"
	"slices"
)

// resolve returns the links that anchors make to documents other than self. It is not complete when
// a limit was met.
func resolve(anchors []anchor, self string, base *url.URL) (links []Link, complete bool) {
	complete = true
	size := 0 // of all targets
	// targets is by reference, "" for no link, because pages repeat references.
	targets := make(map[string]string)
	index := make(map[string]int) // into links, by target
	for i := range anchors {
		a := &anchors[i]
		target, known := targets[a.ref]
		if !known {
			target = linkTarget(base, a.ref, self)
			targets[a.ref] = target
		}
		if target == "" {
			continue
		}
		at, known := index[target]
		if !known {
			if len(links) == MaxLinks || size+len(target) > MaxLinkBytes {
				complete = false
				continue
			}
			at, size = len(links), size+len(target)
			index[target] = at
			links = append(links, Link{Target: target})
		}
		added := links[at].addAnchor(a.text.String())
		complete = complete && added && !a.text.cut
	}
	return links, complete
}

// linkTarget returns the identity of the document that ref means, "" if it is none or self.
func linkTarget(base *url.URL, ref, self string) string {
	target, err := NormalizeURL(base, ref)
	if err != nil || target == self {
		return ""
	}
	return target
}

// addAnchor adds a text unless it is empty or known. It is false if there were too many.
func (l *Link) addAnchor(text string) bool {
	if text == "" || slices.Contains(l.Anchors, text) {
		return true
	}
	if len(l.Anchors) == MaxAnchors {
		return false
	}
	l.Anchors = append(l.Anchors, text)
	return true
}

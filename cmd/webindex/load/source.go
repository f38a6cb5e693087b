package load

import (
	"github.com/gopercolator/percolator/cmd/webindex/crawl"
)

// Source is a crawl that can be loaded.
type Source struct {
	Name string
	open func() (*crawl.Input, error)
}

// Bundled is the crawl that comes with the program.
func Bundled() Source {
	return Source{crawl.BundledName, func() (*crawl.Input, error) { return crawl.OpenBundled(), nil }}
}

// Path is a WARC file or a directory of HTML files.
func Path(path string) Source {
	return Source{path, func() (*crawl.Input, error) { return crawl.Open(path) }}
}

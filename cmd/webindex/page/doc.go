// Package page defines a web page for the index: the identity of its URL, its cluster, and the
// title, text, terms and links in it. Everything is a pure function of its arguments, so
// recomputing an index from the raw pages gives the same one. All functions may be called
// concurrently.
package page

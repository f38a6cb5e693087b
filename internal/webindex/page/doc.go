// Package page says what a web page is to the index: the identity of its URL, its cluster, and the
// title, text, terms and links in it. Everything is a pure function of its arguments, so that
// whoever recomputes an index from the raw pages gets the same one. All functions may be called
// concurrently.
package page

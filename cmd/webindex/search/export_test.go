package search

// MaxViews is for docs/internals/BOUNDS.md.
const MaxViews = maxViews

// Occupy takes slots of views, and returns the function that gives one back.
func (s *Server) Occupy(n int) (release func()) {
	for range n {
		s.views <- struct{}{}
	}
	return func() { <-s.views }
}

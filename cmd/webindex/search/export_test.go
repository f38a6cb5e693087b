package search

// MaxViews is for docs/internals/BOUNDS.md.
const MaxViews = maxViews

// MaxForms is for docs/internals/BOUNDS.md.
const MaxForms = maxForms

// Occupy takes slots of views, and returns the function that gives one back.
func (s *Server) Occupy(n int) (release func()) { return occupy(s.views, n) }

// OccupyForms does so with slots of forms.
func (s *Server) OccupyForms(n int) (release func()) { return occupy(s.changes.forms, n) }

func occupy(slots chan struct{}, n int) (release func()) {
	for range n {
		slots <- struct{}{}
	}
	return func() { <-slots }
}

package search

import "testing"

// While a request surveys the index, others are shown the last survey, as the comment of overview
// says: a start page without its statistics and examples would be a page that has lost them.
func TestOverviewWhileAnotherRequestSurveys(t *testing.T) {
	t.Parallel()
	s := &Server{views: make(chan struct{}, 1)}
	s.overviews.last.Store(&overview{Pages: 204})
	s.overviews.mu.Lock() // by the request that surveys
	defer s.overviews.mu.Unlock()
	if o := s.overview(t.Context()); o == nil || o.Pages != 204 {
		t.Errorf("the start page shows %+v", o)
	}
}

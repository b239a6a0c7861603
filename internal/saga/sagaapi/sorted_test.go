package sagaapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/skald-saga/skald/internal/test/apitest"
)

// TestSagasAreFoundByHowTheirKeysBeginAndSorted: a prefix is literal text, even if it contains LIKE
// wildcards, and each order has its own cursors.
func TestSagasAreFoundByHowTheirKeysBeginAndSorted(t *testing.T) {
	e := apitest.NewEdge(t)
	e.Register("order", "reserve")
	// In order of creation. The correlation ids give the sort positions of the business keys.
	for _, s := range []struct{ key, correlation string }{
		{"order-2", "4"}, {"order-10", "3"}, {"Order-1", "1"}, {"order_1", "5"}, {"100%", "0"}, {"order", "2"}, {"заказ-1", "6"},
	} {
		e.Start(fmt.Sprintf(`{"workflow_name":"order","business_key":%q,"correlation_id":%q}`, s.key, s.correlation))
	}
	for query, want := range map[string]string{
		"business_key_prefix=order":                            "2 3 4 5",
		"business_key_prefix=order-":                           "3 4",
		"business_key_prefix=order_":                           "5",
		"business_key_prefix=order&order=desc":                 "5 4 3 2",
		"business_key_prefix=order&sort=business_key":          "2 3 4 5",
		"business_key_prefix=%25":                              "",
		"business_key_prefix=100%25":                           "0",
		"business_key_prefix=_":                                "",
		"business_key_prefix=order%5C":                         "",
		"business_key_prefix=%D0%B7":                           "6",
		"business_key_prefix=order*":                           "",
		"business_key_prefix=%F4%8F%BF%BF":                     "",
		"correlation_id_prefix=3":                              "3",
		"business_key_prefix=order&correlation_id_prefix=4":    "4",
		"business_key_prefix=order&business_key=order-10":      "3",
		"sort=business_key":                                    "0 1 2 3 4 5 6",
		"sort=correlation_id&order=desc":                       "6 5 4 3 2 1 0",
		"sort=created_at":                                      "6 2 0 5 1 3 4",
		"sort=created_at&order=asc":                            "4 3 1 5 0 2 6",
		"business_key_prefix=order&archived=true":              "",
		"business_key_prefix=order&sort=business_key&page=2":   "",
		"business_key_prefix=" + strings.Repeat("%D0%B7", 255): "",
	} {
		if got := correlations(e.List(query)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		var walked []string
		for next := query + "&page_size=1"; want != "" && len(walked) <= 7; {
			list := e.List(next)
			walked = append(walked, correlations(list))
			if list.Pagination.NextCursor == nil {
				break
			}
			next = query + "&page_size=1&cursor=" + url.QueryEscape(*list.Pagination.NextCursor)
		}
		if got := strings.Join(walked, " "); got != want {
			t.Errorf("%s, one at a time: %s, want %s", query, got, want)
		}
	}
	cursor := "&cursor=" + *e.List("sort=business_key&page_size=1").Pagination.NextCursor
	for _, query := range []string{
		"business_key_prefix=", "business_key_prefix=" + strings.Repeat("x", 256), "business_key_prefix=%00",
		"business_key_prefix=%FF", "business_key_prefix=a&business_key_prefix=b", "business_key_prefix=a&sort=created_at",
		"business_key_prefix=a&sort=completed_at", "correlation_id_prefix=a&sort=business_key", "sort=updated_at", "sort=",
		"sort=completed_at&archived=true", "sort=business_key&order=desc" + cursor, "sort=correlation_id" + cursor, cursor[1:],
	} {
		if got := e.Send("GET", "/api/v1/sagas?"+query, ""); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, got.Status, got.Body)
		}
	}
}

package openapi

// withLinks describes the Link header of every list, which the edge derives from the cursor of the
// next page.
func withLinks(doc object) {
	for at := range operations(doc) {
		answer := resolved(doc, at.op.object("responses")["200"])
		schema := resolved(doc, answer.object("content").object("application/json")["schema"])
		members := schema.object("properties")
		if at.method != "get" || members["pagination"] == nil && members["next_cursor"] == nil {
			continue
		}
		headers, _ := answer["headers"].(object)
		if headers == nil {
			headers = object{}
			answer["headers"] = headers
		}
		headers["Link"] = object{
			"description": "`<path?query>; rel=\"next\"`: the next page (RFC 8288). Absent from the last one.",
			"schema":      object{"type": "string"},
		}
	}
}

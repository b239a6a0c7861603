package overviewdb

// SearchText is the statement of Search.
var SearchText = everything.Text

module bucksaw

go 1.25.0

"""Value functions as tensor trains, for grids that no table can hold."""

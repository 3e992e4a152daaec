"""What people look at: charts as SVG, and HTML pages from templates."""

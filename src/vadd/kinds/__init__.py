"""What an example is: a point, an array, an image, a text, a row of a table."""
